//! One script on both servers, and what differs.

use serde_json::{Value, json};

use crate::diff::{Difference, differences};
use crate::intended::Intended;
use crate::normalise::Normaliser;
use crate::path;
use crate::play::{Played, play};
use crate::script::{Script, Step};
use crate::servers::Pair;

/// What came of one script.
#[derive(Debug)]
pub struct Compared {
    /// The script's name.
    pub script: String,
    /// The steps whose answers differ in a way that is not intended.
    pub steps: Vec<StepDifferences>,
    /// Why the script itself is no good: a step that failed on either side, or a status that it did not expect.
    pub problems: Vec<String>,
    /// The real server's answers, made comparable.
    pub answers: Vec<(String, Value)>,
}

/// What differs in one step.
#[derive(Debug)]
pub struct StepDifferences {
    /// The place of the step in its script.
    pub index: usize,
    /// The line of the file.
    pub line: usize,
    /// The request line.
    pub summary: String,
    /// Each place.
    pub differences: Vec<Difference>,
}

impl Compared {
    /// Whether both servers answered alike.
    pub fn is_equal(&self) -> bool {
        self.steps.is_empty() && self.problems.is_empty()
    }
}

impl std::fmt::Display for Compared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.script)?;
        for problem in &self.problems {
            writeln!(f, "  {problem}")?;
        }
        for step in &self.steps {
            writeln!(f, "  line {}: {}", step.line, step.summary)?;
            // Where the answers are of different kinds, what else they hold differs of itself.
            let is_other = step.differences.iter().any(|difference| difference.path == ".status");
            for difference in &step.differences {
                if !is_other || matches!(difference.path.as_str(), ".status" | ".body" | ".body.message") {
                    writeln!(f, "{difference}")?;
                }
            }
        }
        Ok(())
    }
}

/// Plays a script to both servers in a fresh namespace each.
pub async fn compare(pair: &Pair, script: &Script, intended: &Intended) -> Compared {
    let mut compared = Compared {
        script: script.name.clone(),
        steps: Vec::new(),
        problems: Vec::new(),
        answers: Vec::new(),
    };
    let namespace = match pair.namespace().await {
        Ok(namespace) => namespace,
        Err(error) => {
            compared.problems.push(format!("no namespace: {error:#}"));
            return compared;
        }
    };
    let (real, embedded) = futures::future::join(
        play(&pair.real, script, &namespace),
        play(pair.embedded.server(), script, &namespace),
    )
    .await;
    let (mut real_normal, mut embedded_normal) = (Normaliser::new(&namespace), Normaliser::new(&namespace));
    for (index, step) in script.steps.iter().enumerate() {
        let (Some(left), Some(right)) = (real.get(index), embedded.get(index)) else { break };
        let left = answer("real", step, left, &mut real_normal, &mut compared.problems);
        let right = answer("embedded", step, right, &mut embedded_normal, &mut compared.problems);
        if let Some(left) = &left {
            expect(step, left, &mut compared.problems);
            compared.answers.push((step.summary(), left.clone()));
        }
        let (Some(left), Some(right)) = (left, right) else { continue };
        let summary = step.summary();
        let found: Vec<Difference> = differences(&narrow(step, left), &narrow(step, right))
            .into_iter()
            .filter(|difference| !intended.covers(&script.name, &summary, difference))
            .collect();
        if !found.is_empty() {
            compared.steps.push(StepDifferences { index, line: step.line, summary, differences: found });
        }
    }
    compared
}

fn answer(
    side: &str,
    step: &Step,
    played: &Played,
    normaliser: &mut Normaliser,
    problems: &mut Vec<String>,
) -> Option<Value> {
    match played {
        Ok(answer) => Some(normaliser.normalise(answer)),
        Err(problem) => {
            problems.push(format!("line {}: {}: {side}: {problem}", step.line, step.summary()));
            None
        }
    }
}

fn expect(step: &Step, answer: &Value, problems: &mut Vec<String>) {
    if let Some(expected) = step.expected
        && answer["status"] != json!(expected)
    {
        problems.push(format!(
            "line {}: {}: the real server did not answer {expected} but {answer}",
            step.line,
            step.summary()
        ));
    }
}

/// A successful answer with no more of its body than the step compares.
fn narrow(step: &Step, mut answer: Value) -> Value {
    if !step.only.is_empty()
        && answer["status"].as_u64().is_some_and(|status| status < 300)
        && let Some(body) = answer.get_mut("body")
    {
        let parts =
            step.only.iter().map(|part| (part.clone(), path::at(body, part).cloned().unwrap_or_default()));
        *body = Value::Object(parts.collect());
    }
    answer
}
