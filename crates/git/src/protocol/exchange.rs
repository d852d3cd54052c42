//! Requests to the programs of a repository: where they go, and who may redirect them.

use bytes::Bytes;
use url::Url;

use crate::call::Call;
use crate::http::{Answer, HttpClient, Reply};
use crate::request::{Payload, Request};
use crate::service::Service;
use crate::{GitError, Limits};

/// Redirects followed within one origin.
const MAX_REDIRECTS: usize = 3;

/// The `GET` that older clients begin with; follows redirects within the origin, as Git does.
pub(super) async fn advertised<'a>(
    http: &'a HttpClient,
    call: &'a Call<'a>,
    configured: &Url,
    limits: &Limits,
    service: Service,
) -> Result<(Url, Answer<'a>), GitError> {
    let mut url = join(configured, "info/refs");
    url.set_query(Some(&format!("service={}", service.name())));
    for _ in 0..=MAX_REDIRECTS {
        let request = Request {
            service,
            url: url.clone(),
            payload: Payload::Nothing,
            v2: service == Service::UploadPack,
            expect: service.advertisement(),
            cap: ("refs_bytes", limits.refs_bytes),
        };
        match http.send(call, request).await? {
            Reply::Redirect(target) => url = target,
            Reply::Answer(answer) => {
                let base = base_of(&url).ok_or_else(|| {
                    call.protocol(format!("the redirect to {} is not to a repository", url.path()))
                })?;
                return Ok((base, answer));
            }
        }
    }
    Err(call.protocol(format!("more than {MAX_REDIRECTS} redirects")))
}

/// Sends a request to the repository's upload-pack.
pub(super) async fn post<'a>(
    http: &'a HttpClient,
    call: &'a Call<'a>,
    base: &Url,
    body: Bytes,
    v2: bool,
    cap: (&'static str, u64),
) -> Result<Answer<'a>, GitError> {
    let service = Service::UploadPack;
    let url = join(base, service.name());
    let request = Request { service, url, payload: Payload::Bytes(body), v2, expect: service.result(), cap };
    answered(http.send(call, request).await?, call)
}

/// The answer to a request that nobody may redirect.
pub(super) fn answered<'a>(reply: Reply<'a>, call: &Call<'_>) -> Result<Answer<'a>, GitError> {
    match reply {
        Reply::Answer(answer) => Ok(answer),
        Reply::Redirect(target) => Err(GitError::NotGit {
            url: call.url.to_string(),
            detail: format!("it redirects to {}", call.printable(target.path(), 100)),
        }),
    }
}

pub(super) fn join(base: &Url, tail: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{tail}", base.path().trim_end_matches('/')));
    url
}

fn base_of(url: &Url) -> Option<Url> {
    let path = url.path().strip_suffix("/info/refs")?.to_owned();
    let mut base = url.clone();
    base.set_query(None);
    base.set_fragment(None);
    base.set_path(&path);
    Some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_behind_a_redirect_is_found_again() {
        let url = Url::parse("https://a/b/c.git/info/refs?service=git-upload-pack").unwrap();
        assert_eq!(base_of(&url).unwrap().as_str(), "https://a/b/c.git");
        assert_eq!(base_of(&Url::parse("https://a/login").unwrap()), None);
        let slash = Url::parse("https://a/b/").unwrap();
        assert_eq!(join(&slash, "git-upload-pack").as_str(), "https://a/b/git-upload-pack");
    }
}
