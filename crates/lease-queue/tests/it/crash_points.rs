//! A replica dies at each of the writes that one job costs, before it is applied and after; another finishes the job.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::checker;
use crate::replica;
use crate::store::{Client, Fate, Flaw, Server};

#[tokio::test(start_paused = true)]
async fn a_job_survives_a_crash_at_any_of_its_writes() {
    let mut crashes = 0;
    for (write, applied) in (0..12).flat_map(|write| [(write, false), (write, true)]) {
        let server = Server::new(Flaw::None);
        server.add("default", "repo", "repo-sync");
        let first = Client { server: Arc::clone(&server), fate: Fate::crashing_at(write, applied) };
        let fate = Arc::clone(&first.fate);
        let _ =
            timeout(Duration::from_mins(10), replica::run("first".into(), first, CancellationToken::new()))
                .await;
        crashes += usize::from(fate.crashed.is_cancelled());

        let second = Client { server: Arc::clone(&server), fate: Fate::crashing_at(usize::MAX, false) };
        let stop = CancellationToken::new();
        let running = tokio::spawn(replica::run("second".into(), second, stop.clone()));
        for _ in 0..600 {
            if server.jobs().is_empty() {
                break;
            }
            sleep(Duration::from_secs(1)).await;
        }
        stop.cancel();
        running.await.unwrap();
        let at = format!("crash at write {write}, applied: {applied}");
        assert_eq!(checker::violations(&server.log(), &server.jobs(), 3), Vec::<String>::new(), "{at}");
        assert_eq!(server.jobs(), [], "{at}");
        assert_eq!(server.history().len(), 1, "{at}");
        assert_eq!(server.history()[0].record.status["state"], "success", "{at}");
    }
    assert!(crashes >= 8, "only {crashes} of the crashes came about");
}
