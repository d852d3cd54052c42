use windlass_git::EntryKind::{Executable, File, Submodule, Symlink};

use super::*;

fn skipped(reason: SkipReason, safe: &str) -> Class<'_> {
    Class::Skipped { reason, safe }
}

#[test]
fn extensions_decide_in_any_case() {
    for path in ["a.json", "a/b.YAML", "a/b.c.yml", "Größe (prod).json"] {
        assert_eq!(classify(path, File), Class::Resource, "{path}");
    }
    assert_eq!(classify("a.json", Executable), Class::Resource);
    for path in ["README.md", "json", "a/.keep", "a/b"] {
        assert_eq!(classify(path, File), Class::Other, "{path}");
    }
    assert_eq!(classify("a/_folder.json", File), Class::FolderMetadata);
}

#[test]
fn what_is_hidden_or_unsafe_is_left_out_below_its_last_good_directory() {
    assert_eq!(classify("a/.git/x.json", File), skipped(SkipReason::Hidden, "a"));
    assert_eq!(classify(".hidden.json", File), skipped(SkipReason::Hidden, ""));
    assert_eq!(classify("a/b/../x.json", File), skipped(SkipReason::Unsafe, "a/b"));
    assert_eq!(classify("a//x.json", File), skipped(SkipReason::Unsafe, "a"));
    assert_eq!(classify("a/b%2f.json", File), skipped(SkipReason::Unsafe, "a"));
    assert_eq!(classify("a/b\\c.json", File), skipped(SkipReason::Unsafe, "a"));
    assert_eq!(classify("/a.json", File), skipped(SkipReason::Unsafe, ""));
}

#[test]
fn eight_levels_are_fine_and_nine_are_too_deep() {
    assert_eq!(classify("1/2/3/4/5/6/7/x.json", File), Class::Resource);
    assert_eq!(classify("1/2/3/4/5/6/7/8/x.json", File), skipped(SkipReason::TooDeep, "1/2/3/4/5/6/7/8"));
    let long = "x".repeat(1025);
    assert_eq!(classify(&long, File), skipped(SkipReason::TooLong, ""));
}

#[test]
fn links_are_never_followed() {
    assert_eq!(classify("a/x.json", Symlink), skipped(SkipReason::Symlink, "a"));
    assert_eq!(classify("a/x.json", Submodule), Class::Other);
    assert_eq!(classify("a/x", Symlink), Class::Other);
}

#[test]
fn only_what_a_user_can_mend_is_reported() {
    assert_eq!(SkipReason::Hidden.message(), None);
    for reason in [SkipReason::TooDeep, SkipReason::TooLong, SkipReason::Unsafe, SkipReason::Symlink] {
        assert!(reason.message().is_some(), "{reason:?}");
    }
}

#[test]
fn below_means_inside() {
    assert!(is_below("a/b.json", "a"));
    assert!(!is_below("ab/c.json", "a"));
    assert!(!is_below("a", "a"));
    assert!(is_below("a", ""));
    assert_eq!(ancestors("a/b/c").collect::<Vec<_>>(), ["a/b/c", "a/b", "a"]);
    assert_eq!(ancestors("").count(), 0);
}
