use std::collections::BTreeMap;

use super::*;

fn rules(more: &str) -> Rules {
    Rules::new(&BTreeMap::new(), Some(more)).unwrap()
}

#[test]
fn without_patterns_pictures_archives_and_what_builds_use_are_left_out() {
    let rules = Rules::new(&BTreeMap::new(), None).unwrap();
    for path in
        [".gitignore", "a/.gitmodules", "a/b.png", "x.tar.gz", ".github/workflows/a.yml", "a/.sops.yaml"]
    {
        assert!(rules.ignores(path, false), "{path}");
    }
    assert!(rules.ignores(".github", true));
    for path in ["a.yaml", ".github", "a/b.tar", "png"] {
        assert!(!rules.ignores(path, false), "{path}");
    }
}

#[test]
fn any_pattern_takes_the_defaults_away_but_those_of_git() {
    let rules = rules("*.txt");
    assert!(!rules.ignores("a.png", false));
    assert!(rules.ignores(".gitignore", false));
    assert!(!self::rules("!.gitignore").ignores(".gitignore", false), "these can be taken back, too");
}

#[test]
fn a_file_is_taken_back_although_a_directory_above_it_is_left_out() {
    let rules = rules("/*\n!/deploy");
    assert!(rules.ignores("src/main.rs", false));
    assert!(rules.ignores("README.md", false));
    assert!(!rules.ignores("deploy", true));
    assert!(!rules.ignores("deploy/a/b.yaml", false));
}

#[test]
fn patterns_mean_what_they_mean_to_flux() {
    for (pattern, path, directory, expected) in [
        ("# a", "# a", false, false),
        ("a ", "a", false, true),
        ("a\\ ", "a ", false, true),
        ("build/", "build", false, false),
        ("build/", "build", true, true),
        ("build/", "x/build/y", false, true),
        ("a/b", "a/b", false, true),
        ("a/b", "a/b/c", false, true),
        ("a/b", "x/a/b", false, false),
        ("/a", "a", false, true),
        ("/a", "x/a", false, false),
        ("**/a", "x/y/a", false, true),
        ("**/a", "a", false, true),
        ("a/**", "a/b/c", false, true),
        ("a/**", "a", true, true),
        ("a/**/b", "a/b", false, true),
        ("a/**/b", "a/x/y/b", false, true),
        ("a/**/b", "a/x/y", false, false),
        ("a/x**", "a/xy", false, false),
        ("a/*.yaml", "a/b.yaml", false, true),
        ("a/*.yaml", "a/b/c.yaml", false, false),
        ("[", "[", false, false),
        ("{a,b}", "a", false, false),
    ] {
        assert_eq!(rules(pattern).ignores(path, directory), expected, "{pattern:?} {path}");
    }
}

#[test]
fn the_file_of_a_directory_holds_below_it_and_wins_over_those_above() {
    let files = [(".sourceignore", "*.md\n"), ("docs/.sourceignore", "!kept.md\n/top\n")];
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
    let both = Rules::new(&files, None).unwrap();
    assert!(both.ignores("kept.md", false));
    assert!(!both.ignores("docs/kept.md", false));
    assert!(both.ignores("docs/other.md", false));
    assert!(both.ignores("docs/top", false) && !both.ignores("top", false));
    let with_spec = Rules::new(&files, Some("docs/kept.md")).unwrap();
    assert!(with_spec.ignores("docs/kept.md", false), "the specification wins over files");
}

#[test]
fn a_file_that_is_no_text_is_named() {
    let files = [("a/.sourceignore".to_owned(), vec![0xff, 0xfe])].into();
    assert_eq!(
        Rules::new(&files, None).unwrap_err(),
        IgnoreError::NotText { path: "a/.sourceignore".to_owned() }
    );
}
