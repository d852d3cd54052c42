use super::*;

fn looked(path: &str, action: Action, title: &str) -> FileReport {
    FileReport {
        path: path.to_owned(),
        action,
        kind: "Dashboard".to_owned(),
        group: "dashboard.grafana.app".to_owned(),
        title: title.to_owned(),
        source: Some(format!("https://github.com/o/r/blob/4f3c/{path}")),
        current: None,
        preview: None,
        error: None,
    }
}

/// What is sent, the character without width shown as `·`.
fn render(comment: &Comment) -> String {
    let footer = Footer { repository: "Team dashboards", marker: "<!-- windlass:0a1b -->" };
    comment.render(&footer).replace('\u{200b}', "·")
}

fn files(files: Vec<FileReport>, skipped: usize) -> Comment {
    Comment::Files { files, skipped, truncated: false }
}

#[test]
fn one_dashboard_is_told_in_a_sentence() {
    let file = FileReport {
        current: Some("https://grafana.example/d/cpu/cpu".to_owned()),
        preview: Some("https://grafana.example/preview".to_owned()),
        error: Some("spec.title: Required value".to_owned()),
        ..looked("cpu.json", Action::Update, "CPU")
    };
    insta::assert_snapshot!(render(&files(vec![file], 0)), @r"
Hey there! 👋

Merging this will update the dashboard **CPU** ([cpu.·json](https://github.com/o/r/blob/4f3c/cpu.json)).

See [the dashboard as it is](https://grafana.example/d/cpu/cpu) and [a preview of it](https://grafana.example/preview).

⚠️ It would not be taken:

> spec.·title:· Required value

---
<sub>Told by Windlass for the repository Team dashboards.</sub>
<!-- windlass:0a1b -->
");
}

#[test]
fn several_files_are_told_in_a_table() {
    let all = vec![
        looked("cpu.json", Action::Create, "CPU"),
        FileReport {
            kind: String::new(),
            error: Some("no JSON".to_owned()),
            ..looked("bad.json", Action::Create, "")
        },
        FileReport { source: None, ..looked("old.json", Action::Delete, "Old") },
    ];
    insta::assert_snapshot!(render(&files(all, 4)), @r"
Hey there! 👋

This is what merging would do:

| Action | Kind | Resource | File | Preview | Status |
| --- | --- | --- | --- | --- | --- |
| create | Dashboard | CPU | [cpu.·json](https://github.com/o/r/blob/4f3c/cpu.json) |  | ✅ |
| create |  |  | [bad.·json](https://github.com/o/r/blob/4f3c/bad.json) |  | ⚠️ |
| delete | Dashboard | Old | old.·json |  | ✅ |

and 4 more files, which were not looked at.

#### What would not be taken

| File | Error |
| --- | --- |
| bad.·json | no JSON |

---
<sub>Told by Windlass for the repository Team dashboards.</sub>
<!-- windlass:0a1b -->
");
}

#[test]
fn a_fork_is_told_that_it_is_one() {
    insta::assert_snapshot!(render(&Comment::Fork), @r"
Hey there! 👋

Previews are not supported for pull requests of forks. Push the branch to this repository to have one.

---
<sub>Told by Windlass for the repository Team dashboards.</sub>
<!-- windlass:0a1b -->
");
}

#[test]
fn nothing_of_theirs_is_markdown_a_link_or_a_mention() {
    let evil =
        "a|b](https://evil.example) @team/all #1 <img src=x> `c`\n\n# H\u{202e} ![x](y) www.evil.example";
    let file = FileReport {
        error: Some(format!("{evil} {}", "x".repeat(400))),
        source: Some("https://github.com/o/r/blob/4f3c/a)|b".to_owned()),
        ..looked("@octocat/[x](y)|.json", Action::Create, evil)
    };
    let text = render(&files(vec![file.clone(), looked("b.json", Action::Update, "B")], 0));
    for bad in [
        "](https://evil",
        "://evil",
        "@team",
        "@octocat",
        "<img",
        "www.evil",
        "\n# H",
        "\u{202e}",
        "xxxx".repeat(80).as_str(),
    ] {
        assert!(!text.contains(bad), "{bad:?} in {text}");
    }
    let row = text.lines().find(|line| line.starts_with("| create")).unwrap();
    assert_eq!(row.replace("\\|", "").matches('|').count(), 7, "{row}");
    let one = render(&files(vec![file], 0));
    assert!(!one.contains("@team") && !one.contains("\n# H"), "{one}");
}

/// What would begin a header of HTTP, of Markdown or of the comment itself, if a line could be ended with it.
#[test]
fn nothing_of_theirs_begins_a_line_a_header_or_the_comments_own_marker() {
    let marker = "<!-- windlass:0a1b -->";
    for end in
        ["\r\n", "\n", "\r", "\u{85}", "\u{2028}", "\u{2029}", "\u{b}", "\u{c}", "\0", "%0d%0a", "&#10;"]
    {
        let evil = format!("x{end}X-Evil: 1{end}{end}# Heading{end}{marker}{end}---{end}> quote");
        let file = FileReport { error: Some(evil.clone()), ..looked(&evil, Action::Create, &evil) };
        let one = files(vec![file.clone()], 0);
        let several = files(vec![file, looked("b.json", Action::Update, "B")], 0);
        for comment in [one, several] {
            let footer = Footer { repository: &evil, marker };
            let text = comment.render(&footer);
            assert_eq!(text.matches(marker).count(), 1, "{text}");
            assert!(text.trim_end().ends_with(marker), "{text}");
            for line in text.lines() {
                assert!(!line.trim_start().starts_with("X-Evil") && !line.starts_with("# "), "{text}");
            }
            assert_eq!(text.lines().filter(|line| *line == "---").count(), 1, "{text}");
            let is_end = |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'));
            assert!(!text.contains(is_end), "{text:?}");
        }
    }
}
