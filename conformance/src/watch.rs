//! An open watch, read line by line.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::Value;

use crate::script::Amount;

/// How long an event may take.
const DEADLINE: Duration = Duration::from_mins(3);

/// A watch whose answer has begun.
pub(crate) struct Watch {
    body: BoxStream<'static, Result<Bytes, reqwest::Error>>,
    buffer: Vec<u8>,
}

impl Watch {
    pub(crate) fn new(response: reqwest::Response) -> Self {
        Self { body: response.bytes_stream().boxed(), buffer: Vec::new() }
    }

    /// The next events, as they came. Periodic bookmarks are left out, as they come by the clock.
    pub(crate) async fn read(&mut self, amount: &Amount) -> Result<Vec<Value>, String> {
        let mut events = Vec::new();
        loop {
            if matches!(amount, Amount::Events(count) if events.len() >= *count) {
                return Ok(events);
            }
            let event = match tokio::time::timeout(DEADLINE, self.next()).await {
                Err(_) => return Err(format!("no event in time; so far {}", Value::Array(events))),
                Ok(Err(problem)) => return Err(problem),
                Ok(Ok(event)) => event,
            };
            match (event, amount) {
                (None, Amount::End) => return Ok(events),
                (None, _) => return Err(format!("the watch has ended; so far {}", Value::Array(events))),
                (Some(event), Amount::Bookmark) if event["type"] == "BOOKMARK" => {
                    events.push(event);
                    return Ok(events);
                }
                (Some(event), _) if is_periodic(&event) => {}
                (Some(event), Amount::Named(name))
                    if event["object"]["metadata"]["name"] == name.as_str() =>
                {
                    events.push(event);
                    return Ok(events);
                }
                (Some(event), _) => events.push(event),
            }
        }
    }

    async fn next(&mut self) -> Result<Option<Value>, String> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return serde_json::from_slice(&line).map(Some).map_err(|error| {
                    format!("an event is not JSON ({error}): {}", String::from_utf8_lossy(&line))
                });
            }
            match self.body.next().await {
                Some(Ok(bytes)) => self.buffer.extend_from_slice(&bytes),
                Some(Err(error)) => return Err(format!("failed to read a watch: {error}")),
                None if self.buffer.is_empty() => return Ok(None),
                None => self.buffer.push(b'\n'),
            }
        }
    }
}

fn is_periodic(event: &Value) -> bool {
    event["type"] == "BOOKMARK"
        && event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"].is_null()
}
