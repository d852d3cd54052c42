//! `windlass keys` beside a running server, as the reference of the API server has it.

use windlass_e2e::{Peers, Programs, Server, eventually};

/// A new access token.
async fn token(server: &Server) -> String {
    let line = "curl -sSf -X POST http://localhost:$EXCHANGE/sign/access-token -H 'Content-Type: application/json' \
                  -H 'Authorization: Bearer ProvisioningAdminToken' \
                  -d '{\"namespace\": \"*\", \"audiences\": [\"provisioning.grafana.app\"]}' | jq -r .data.token";
    server.shell(line).await.unwrap().trim().to_owned()
}

/// The status code of a request with this token.
async fn answered(server: &Server, token: &str) -> String {
    let line = format!(
        "curl -sS -o /dev/null -w '%{{http_code}}' --cacert \"$CA\" -H 'X-Access-Token: Bearer {token}' \
           https://localhost:$API/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories"
    );
    server.shell(&line).await.unwrap()
}

/// Runs `windlass keys …` in the server's folder.
async fn keys(server: &Server, arguments: &str) -> String {
    let program = Programs::path("windlass").unwrap();
    let folder = server.folder.path().display();
    server.shell(&format!("cd {folder} && {} keys {arguments}", program.display())).await.unwrap()
}

/// Waits until a token is refused: the server looks at its keys every twenty seconds.
async fn refused(server: &Server, token: &str) {
    eventually("the token is refused", || async {
        let code = answered(server, token).await;
        Ok((code == "401").then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_running_server_follows_when_a_token_is_revoked_and_when_its_keys_are_rotated() {
    if !Peers::present(&["curl", "jq"]).unwrap() {
        return;
    }
    let server = Server::start(&[]).await.unwrap();
    let (one, other) = (token(&server).await, token(&server).await);
    assert_eq!(
        (answered(&server, &one).await, answered(&server, &other).await),
        ("200".into(), "200".into())
    );
    let said = keys(&server, &format!("revoke data {one}")).await;
    assert!(said.starts_with("revoked ") && !said.contains(&one), "{said}");
    refused(&server, &one).await;
    assert_eq!(answered(&server, &other).await, "200", "another token is as good as before");

    keys(&server, "rotate data").await;
    let algorithm = "curl -sSf http://localhost:$EXCHANGE/jwks | jq '.keys | length'";
    eventually("both keys verify", || async {
        Ok((server.shell(algorithm).await?.trim() == "2").then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(answered(&server, &other).await, "200", "a token of the key before is good until it ends");
    keys(&server, "rotate --forget data").await;
    refused(&server, &other).await;
    assert_eq!(answered(&server, &token(&server).await).await, "200");
}
