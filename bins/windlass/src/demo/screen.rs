//! What the demo shows: a bar on a terminal, plain lines elsewhere.
#![expect(clippy::print_stdout, reason = "the demo's output is for a reader")]

use std::cell::{Cell, RefCell};
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use windlass_api::{JobState, JobStatus};

use super::remote::Remote;
use super::sample::Sample;

/// Whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Where the demo writes to.
pub(crate) struct Screen {
    terminal: bool,
}

/// How long each stage took.
#[derive(Default)]
pub(crate) struct Stages(Vec<(&'static str, Duration)>);

impl Stages {
    /// Adds a stage that is over.
    pub(crate) fn add(&mut self, stage: &'static str, took: Duration) {
        self.0.push((stage, took));
    }
}

impl Screen {
    pub(crate) fn new() -> Self {
        Self { terminal: is_terminal() }
    }

    pub(crate) fn title(&self, text: &str) {
        println!("{}\n", self.strong(text));
    }

    /// Something that is ready.
    pub(crate) fn done(&self, what: &str, detail: &str) {
        println!("  {} {what:<18} {detail}", self.mark(true));
    }

    /// A place for a job's progress.
    pub(crate) fn progress(&self) -> Progress {
        let bar = if self.terminal {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
            if let Ok(style) = ProgressStyle::with_template("  {spinner} pulling {msg}") {
                bar.set_style(style);
            }
            Some(bar)
        } else {
            None
        };
        Progress { bar, touched: Cell::new(false), last: RefCell::default() }
    }

    /// What the pull did: counts by kind, files that were left out, time by stage.
    pub(crate) fn result(&self, status: &JobStatus, stages: &Stages) {
        let good = status.state == JobState::Success;
        println!("  {} {:<18} {}: {}\n", self.mark(good), "pull", status.state.as_str(), status.message);
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.set_header(["  kind", "created", "updated", "deleted", "unchanged", "warnings", "errors"]);
        for kind in &status.summary {
            let name = if kind.kind.is_empty() { "(other)" } else { &kind.kind };
            table.add_row([
                format!("  {name}"),
                kind.create.to_string(),
                kind.update.to_string(),
                kind.delete.to_string(),
                kind.noop.to_string(),
                kind.warning.to_string(),
                kind.error.to_string(),
            ]);
        }
        align_right(&mut table, 1..7);
        if !status.summary.is_empty() {
            println!("{table}\n");
        }
        for line in status.errors.iter().chain(&status.warnings) {
            println!("  {} {line}", self.mark(false));
        }
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.set_header(["  stage", "time"]);
        for (stage, took) in &stages.0 {
            table.add_row([format!("  {stage}"), format!("{:.0} ms", took.as_secs_f64() * 1000.0)]);
        }
        align_right(&mut table, 1..2);
        println!("{table}\n");
    }

    /// What to do next, to the letter.
    pub(crate) fn go_on(
        &self,
        remote: &Remote,
        kubeconfig: &Path,
        sample: Option<(&Sample, &Path)>,
        [api, exchange]: [u16; 2],
    ) {
        let Remote { name, .. } = remote;
        println!("{}\n", self.strong("Look around"));
        println!("  export KUBECONFIG={}", kubeconfig.display());
        println!("  kubectl get repositories,folders,dashboards");
        println!("  kubectl get historicjobs -o wide\n");
        println!("{}\n", self.strong("Queue another pull"));
        println!("  export ACCESS_TOKEN=$(curl -X POST http://localhost:{exchange}/sign/access-token \\");
        println!(
            "    -H \"X-Realms: [{{\\\"type\\\":\\\"system\\\",\\\"identifier\\\":\\\"system\\\"}}]\" \
             -H \"X-Org-ID: 0\" -H \"Content-Type: application/json\" \\"
        );
        println!("    -H \"Authorization: Bearer ProvisioningAdminToken\" \\");
        println!(
            "    -d '{{ \"namespace\": \"*\", \"audiences\": [\"provisioning.grafana.app\"] }}' | jq -r '.data.token')"
        );
        println!(
            "  curl -X POST https://localhost:{api}/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories/{name}/jobs \\"
        );
        println!(
            "    -H \"Content-Type: application/json\" --insecure -H \"X-Access-Token: Bearer $ACCESS_TOKEN\" \\"
        );
        println!("    -d '{{ \"action\": \"pull\", \"pull\": {{ \"incremental\": false }} }}'\n");
        if let Some((sample, credentials)) = sample {
            println!("{}\n", self.strong("Push, and see the dashboard change"));
            let (file, url) = (credentials.display(), sample.url());
            println!("  git clone -c credential.helper='store --file={file}' {url} && cd sample");
            println!(
                "  sed -i 's/Service overview/Is anyone hurt?/' overview.json && git commit -am Rename && git push\n"
            );
            println!("{}\n", self.strong("Write back (docs/how-to/write-back.md)"));
            println!("  git -C {} log --stat\n", sample.path().display());
        }
        if sample.is_none() {
            println!("{}\n", self.strong("Follow the branch from now on"));
            println!(
                "  kubectl patch repository {name} --type merge -p '{{\"spec\":{{\"sync\":{{\"enabled\":true}}}}}}'\n"
            );
        }
        println!("Ctrl-C ends everything.");
    }

    fn mark(&self, good: bool) -> &'static str {
        match (self.terminal, good) {
            (true, true) => "\u{1b}[32m✓\u{1b}[0m",
            (true, false) => "\u{1b}[33m!\u{1b}[0m",
            (false, true) => "✓",
            (false, false) => "!",
        }
    }

    fn strong(&self, text: &str) -> String {
        if self.terminal { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

fn align_right(table: &mut Table, columns: std::ops::Range<usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// A job's progress on the screen.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    touched: Cell<bool>,
    last: RefCell<String>,
}

impl Progress {
    /// Whether nothing was shown yet.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.touched.get()
    }

    /// Shows a status.
    pub(crate) fn show(&self, status: &JobStatus) {
        self.touched.set(true);
        let done: i64 = status.summary.iter().map(|kind| kind.total).sum();
        match &self.bar {
            Some(bar) => {
                if status.progress > 0.0 {
                    if bar.length().is_none()
                        && let Ok(style) =
                            ProgressStyle::with_template("  {bar:40.cyan/dim} {pos:>5}/{len} {msg}")
                    {
                        bar.set_style(style);
                    }
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "a count of files"
                    )]
                    bar.set_length((done as f64 * 100.0 / status.progress).round().max(0.0) as u64);
                }
                bar.set_position(u64::try_from(done).unwrap_or(0));
                bar.set_message(status.message.clone());
            }
            None => {
                let line = format!("{} {:>3.0} % {}", status.state.as_str(), status.progress, status.message);
                if *self.last.borrow() != line {
                    println!("    {}", line.trim_end());
                    *self.last.borrow_mut() = line;
                }
            }
        }
    }

    /// Makes way for the result.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
