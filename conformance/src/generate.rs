//! Random scripts from a seed: sequences of requests, valid and not, on a few names.
//!
//! Requests of one script follow each other, so nothing races. Versions are captured after each write and used right,
//! stale or not at all. [`shrink`] drops steps from a failing script for as long as it fails.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

use crate::script::{Action, Amount, Body, Request, Script, Step};

const CONFIG_MAPS: &str = "/api/v1/namespaces/{{ns}}/configmaps";
const WIDGETS: &str = "/apis/conformance.windlass.dev/v1/namespaces/{{ns}}/widgets";
const NAMES: [&str; 3] = ["a", "b", "c"];

/// A script of so many steps; the same for the same seed.
pub fn script(seed: u64, steps: usize) -> Script {
    let mut generator = Generator { random: StdRng::seed_from_u64(seed), steps: Vec::new(), versions: 0 };
    // A watch sees everything that follows.
    let widgets = generator.flip(2);
    let collection = if widgets { WIDGETS } else { CONFIG_MAPS };
    generator.watch(collection);
    while generator.steps.len() < steps {
        generator.step();
    }
    // The last event that the watch is read up to.
    generator.sentinel(widgets, collection);
    Script { name: format!("generated/{seed}"), values: Vec::new(), steps: generator.steps }
}

/// The shortest script that still fails, of those that lack some of the steps; after so many tries the shortest so far.
/// What opens, ends and reads the watch stays, so that no shorter script waits in vain.
pub async fn shrink<F>(script: Script, mut tries: usize, fails: impl Fn(Script) -> F) -> Script
where
    F: Future<Output = bool>,
{
    let mut best = script;
    let mut piece = best.steps.len() / 2;
    while piece > 0 {
        let mut start = 1;
        while start + 2 < best.steps.len() {
            if tries == 0 {
                return best;
            }
            tries -= 1;
            let mut shorter = best.clone();
            let end = (start + piece).min(shorter.steps.len() - 2);
            shorter.steps.drain(start..end);
            if fails(shorter.clone()).await {
                best = shorter;
            } else {
                start += piece;
            }
        }
        piece /= 2;
    }
    best
}

/// The script as it could stand in a file.
pub fn render(script: &Script) -> String {
    let mut lines = vec![format!("=== {}", script.name)];
    for step in &script.steps {
        match &step.action {
            Action::Send(request) => {
                lines.push(format!("{} {}", request.method, request.path));
                lines.extend(request.headers.iter().map(|(name, value)| format!("{name}: {value}")));
                match &request.body {
                    Body::Empty => {}
                    Body::Json(body) => lines.push(body.clone()),
                    Body::Raw(body) => lines.extend(["Body: raw".to_owned(), body.clone()]),
                }
            }
            _ => lines.push(step.summary()),
        }
        lines.extend(step.captures.iter().map(|(name, path)| format!("> {name} = {path}")));
    }
    lines.push(String::new());
    lines.join("\n")
}

struct Generator {
    random: StdRng,
    steps: Vec<Step>,
    /// How many answers had their version captured.
    versions: usize,
}

impl Generator {
    /// True once in so many times.
    fn flip(&mut self, of: u32) -> bool {
        self.random.random_ratio(1, of)
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices.choose(&mut self.random).copied().unwrap_or_default()
    }

    fn send(&mut self, method: &str, path: String, kind: Option<&str>, body: Option<String>) {
        let headers = kind.map(|kind| ("Content-Type".to_owned(), kind.to_owned())).into_iter().collect();
        let body = body.map_or(Body::Empty, |body| {
            if kind == Some("application/apply-patch+yaml") { Body::Raw(body) } else { Body::Json(body) }
        });
        // Every answer that has a version gives it to later requests; a refused one gives none, which is a version too.
        // The version of a list is that of the whole store, which other scripts write to; its UID is empty.
        let place = path.split('?').next().unwrap_or_default();
        let is_list = method != "POST" && (place == CONFIG_MAPS || place == WIDGETS);
        let version = if is_list { "?.metadata.uid" } else { "?.metadata.resourceVersion" };
        let captures = vec![(format!("v{}", self.versions), version.to_owned())];
        self.versions += 1;
        let request = Request { method: method.to_owned(), path, headers, body };
        self.push(Action::Send(request), captures);
    }

    fn push(&mut self, action: Action, captures: Vec<(String, String)>) {
        let line = self.steps.len() + 1;
        self.steps.push(Step { line, action, captures, only: Vec::new(), expected: None });
    }

    fn watch(&mut self, collection: &str) {
        let request = Request {
            method: "GET".to_owned(),
            path: format!("{collection}?watch=true"),
            headers: Vec::new(),
            body: Body::Empty,
        };
        self.push(Action::Watch { name: "w".to_owned(), request }, Vec::new());
    }

    fn sentinel(&mut self, widgets: bool, collection: &str) {
        // Valid for its kind, or the watch would be waited for in vain.
        let body = self.document(widgets, "sentinel", "", if widgets { "size: 1" } else { "k: v" });
        self.send("POST", collection.to_owned(), Some("application/json"), Some(body));
        self.push(
            Action::Read { name: "w".to_owned(), amount: Amount::Named("sentinel".to_owned()) },
            Vec::new(),
        );
    }

    fn step(&mut self) {
        let widgets = self.flip(2);
        let collection = if widgets { WIDGETS } else { CONFIG_MAPS };
        let name = self.one_of(&NAMES);
        let path = format!("{collection}/{name}");
        match self.random.random_range(0..20) {
            0..5 => {
                let (metadata, spec) = (self.metadata(), self.spec(widgets));
                let body = self.document(widgets, name, &metadata, &spec);
                let query = self.query();
                self.send("POST", format!("{collection}{query}"), Some("application/json"), Some(body));
            }
            5..9 => {
                let (mut metadata, spec) = (self.metadata(), self.spec(widgets));
                metadata.push_str(&self.version());
                let body = self.document(widgets, name, &metadata, &spec);
                let status = if widgets && self.flip(4) { "/status" } else { "" };
                let query = self.query();
                self.send("PUT", format!("{path}{status}{query}"), Some("application/json"), Some(body));
            }
            9..13 => self.merge(widgets, &path),
            13 => self.json_patch(widgets, &path),
            14..17 => {
                let query = self.one_of(&[
                    "",
                    "",
                    "",
                    "?dryRun=All",
                    "?propagationPolicy=Background",
                    "?gracePeriodSeconds=0",
                ]);
                self.send("DELETE", format!("{path}{query}"), None, None);
            }
            17 => {
                let query = self.one_of(&["", "?labelSelector=x%3Done", "?fieldSelector=metadata.name%3Da"]);
                self.send("DELETE", format!("{collection}{query}"), None, None);
            }
            18 => self.send("GET", path, None, None),
            _ => {
                let query = self.one_of(&[
                    "",
                    "?limit=1",
                    "?labelSelector=x",
                    "?labelSelector=x+in+(one,two)",
                    "?labelSelector=!x",
                    "?fieldSelector=metadata.name!%3Da",
                ]);
                self.send("GET", format!("{collection}{query}"), None, None);
            }
        }
    }

    fn query(&mut self) -> &'static str {
        self.one_of(&["", "", "", "", "?dryRun=All", "?fieldValidation=Strict", "?fieldValidation=Ignore"])
    }

    /// A version that some earlier answer had, or none, or one that never was.
    fn version(&mut self) -> String {
        match self.random.random_range(0..6) {
            0 => ", resourceVersion: \"1\"".to_owned(),
            1 | 2 => String::new(),
            _ if self.versions == 0 => String::new(),
            _ => {
                // Mostly a late one.
                let back = self.random.random_range(0..self.versions.min(4));
                format!(", resourceVersion: \"{{{{v{}}}}}\"", self.versions - 1 - back)
            }
        }
    }

    fn metadata(&mut self) -> String {
        let labels = self.one_of(&[
            "",
            "",
            ", labels: {x: one}",
            ", labels: {x: two, z: \"\"}",
            ", labels: {\"-bad\": one}",
            ", annotations: {k: v}",
        ]);
        let finalizers = if self.flip(6) { ", finalizers: [example.com/a]" } else { "" };
        format!("{labels}{finalizers}")
    }

    fn spec(&mut self, widgets: bool) -> String {
        if !widgets {
            let data = ["", "k: v", "k: w", "k: v, l: w", "l: \"\"", "\"bad key\": v", "k: 5"];
            return self.one_of(&data).to_owned();
        }
        let size = self.one_of(&["size: 1", "size: 2", "size: 2", "size: 0", "size: x", ""]);
        let more = self.one_of(&[
            "",
            "",
            "color: blue",
            "color: pink",
            "tags: [x]",
            "tags: [x, x]",
            "parts: [{name: p}]",
            "parts: [{name: p, count: 2}, {name: q}]",
            "unknown: x",
            "free: {any: {thing: [1, 2]}}",
            "note: null",
        ]);
        match (size, more) {
            ("", more) => more.to_owned(),
            (size, "") => size.to_owned(),
            (size, more) => format!("{size}, {more}"),
        }
    }

    fn document(&mut self, widgets: bool, name: &str, metadata: &str, spec: &str) -> String {
        if widgets {
            let status = if self.flip(4) { ", status: {phase: Ready}" } else { "" };
            format!(
                "{{apiVersion: conformance.windlass.dev/v1, kind: Widget, metadata: {{name: {name}{metadata}}}, spec: \
                 {{{spec}}}{status}}}"
            )
        } else {
            format!(
                "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}{metadata}}}, data: {{{spec}}}}}"
            )
        }
    }

    fn merge(&mut self, widgets: bool, path: &str) {
        let body = if self.flip(3) {
            self.one_of(&[
                "{metadata: {finalizers: null}}",
                "{metadata: {finalizers: []}}",
                "{metadata: {labels: {x: null}}}",
                "{metadata: {labels: {x: two}}}",
                "{metadata: {labels: null, annotations: {k: w}}}",
                "{metadata: {name: other}}",
                "{}",
            ])
            .to_owned()
        } else if widgets {
            let spec = self.spec(widgets);
            format!("{{spec: {{{spec}}}, status: {{observed: 1}}}}")
        } else {
            let data = self.spec(widgets);
            format!("{{data: {{{data}}}}}")
        };
        let status = if widgets && self.flip(4) { "/status" } else { "" };
        let query = self.query();
        let kind = if !widgets && self.flip(3) {
            "application/strategic-merge-patch+json"
        } else {
            "application/merge-patch+json"
        };
        self.send("PATCH", format!("{path}{status}{query}"), Some(kind), Some(body));
    }

    fn json_patch(&mut self, widgets: bool, path: &str) {
        let body = if widgets {
            self.one_of(&[
                "[{op: replace, path: /spec/size, value: 3}]",
                "[{op: remove, path: /spec/color}]",
                "[{op: test, path: /spec/size, value: 2}, {op: add, path: /spec/tags, value: [z]}]",
                "[{op: add, path: /spec/parts/-, value: {name: r}}]",
            ])
        } else {
            self.one_of(&[
                "[{op: replace, path: /data/k, value: w}]",
                "[{op: remove, path: /data/k}]",
                "[{op: test, path: /data/k, value: w}, {op: add, path: /data/n, value: z}]",
            ])
        };
        self.send("PATCH", path.to_owned(), Some("application/json-patch+json"), Some(body.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_script() {
        assert_eq!(render(&script(7, 25)), render(&script(7, 25)));
        assert_ne!(render(&script(7, 25)), render(&script(8, 25)));
    }

    #[tokio::test]
    async fn shrinking_leaves_what_fails() {
        let whole = script(7, 25);
        let (first, last) = (whole.steps[3].line, whole.steps[20].line);
        let kept = [whole.steps[0].line, first, last, whole.steps[25].line, whole.steps[26].line];
        let fails = |script: Script| async move {
            let has = |line: usize| script.steps.iter().any(|step| step.line == line);
            has(first) && has(last)
        };
        let lines: Vec<usize> = shrink(whole, 100, fails).await.steps.iter().map(|step| step.line).collect();
        assert_eq!(lines, kept);
    }

    #[tokio::test]
    async fn shrinking_ends_after_so_many_tries() {
        let whole = script(7, 25);
        // One try takes half of the steps away.
        let shorter = shrink(whole.clone(), 1, |_| std::future::ready(true)).await;
        assert_eq!(shorter.steps.len(), whole.steps.len() - whole.steps.len() / 2);
        assert_eq!(
            shrink(whole.clone(), 0, |_| std::future::ready(true)).await.steps.len(),
            whole.steps.len()
        );
    }
}
