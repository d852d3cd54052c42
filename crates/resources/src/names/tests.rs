use proptest::prelude::*;

use super::*;

// Computed by a program that shares nothing with this one.
#[test]
fn folder_identifiers_are_what_they_always_were() {
    let vectors = [
        ("test6", "apps", "apps-tr7se7ljpkv-kga6w1gf8exf4ilqfhlekyp"),
        ("test6", "apps/Team A", "teama-heg3vz1seaotgdp-0jjjscpee8-1gkzxj3"),
        ("test6", "apps/team_a/", "team-a-tash8qyrndnufypl9uy7v3z-y4vk5inrr"),
        ("other", "apps", "apps-e0reuztqt8wtigtfszpnzp08wxi-18jgqwe"),
        ("test6", "日本", "2gc5fidrltcafxnf0szoihry-fccbb5mhmujjc6"),
        (
            "test6",
            "a-very-long-directory-name-that-goes-on-and-on",
            "a-very-long-directory-name-that-1fhiaar3",
        ),
        ("test6", "..x__y", "x-y-i0u7fmjgqn4sr5nbrcnoocpknlbyc3zmfzqu"),
        // The cut falls behind a hyphen, which no name may end with.
        ("test6", "d18", "d18-acjq6aca6klk-cjezga8lh1momy4fvv45ss"),
    ];
    for (repository, directory, id) in vectors {
        assert_eq!(folder_id(repository, directory), id, "{repository} {directory}");
    }
}

#[test]
fn an_unnamed_file_keeps_its_name_when_its_format_changes() {
    let name = "cpu-jndhftacyqbw8dhhgm-iizrrs-qypswxfmmx";
    assert_eq!(unnamed_file("test6", "apps/cpu.json"), name);
    assert_eq!(unnamed_file("test6", "apps/cpu.yaml"), name);
    assert_eq!(
        unnamed_file("test6", "Über uns/Größe der Dateien im Überblick (prod).json"),
        "grederdateienimberbli-l09xxynn"
    );
}

#[test]
fn a_generated_name_starts_with_its_prefix_and_depends_on_the_path() {
    let name = generated("test6", "apps/cpu.json", "cpu-");
    assert!(name.starts_with("cpu-"), "{name}");
    assert_eq!(name, generated("test6", "apps/cpu.yaml", "cpu-"));
    assert_ne!(name, generated("test6", "apps/memory.json", "cpu-"));
}

#[test]
fn a_long_repository_name_is_hashed_into_a_label() {
    assert_eq!(label_value("test6"), "test6");
    let fits = "r".repeat(63);
    assert_eq!(label_value(&fits), fits);
    let label = label_value(&"r".repeat(100));
    assert_eq!(label, format!("{}-f1f2954356bea23d292c50dbc9b53026", "r".repeat(30)));
    assert_eq!(label.len(), 63);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn computed_names_are_valid_names(repository in "[a-z0-9-]{1,50}", path in "\\PC{1,80}") {
        for name in [folder_id(&repository, &path), unnamed_file(&repository, &path)] {
            prop_assert!(!name.is_empty() && name.len() <= MAX_NAME, "{name:?}");
            prop_assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.'));
            prop_assert!(!name.starts_with(['-', '.']) && !name.ends_with(['-', '.']), "{name:?}");
        }
    }
}
