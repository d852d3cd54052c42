//! What is known of each key, and the macro by which a section's struct and its keys are declared at once.

use crate::sections::{
    AuthSettings, CommitTrackerSettings, OperatorSettings, ProvisioningSettings, SourceSettings,
};

/// The operator that also reads the variables of grafana/flux-commit-tracker.
pub const COMMIT_TRACKER: &str = "flux-commit-tracker";

/// One key of the configuration.
pub(crate) struct Key {
    /// Section of the ini file.
    pub(crate) section: &'static str,
    /// Name inside the section.
    pub(crate) name: &'static str,
    /// What the value does, a line each.
    pub(crate) description: &'static [&'static str],
    /// The form of the value, as the reference says it.
    pub(crate) form: fn() -> String,
    /// Text of the value when nothing says otherwise.
    pub(crate) default: &'static str,
    /// Whether the value is never shown.
    pub(crate) secret: bool,
    /// Operators that do not start without a value.
    pub(crate) required_for: &'static [&'static str],
    /// The variable by which grafana/flux-commit-tracker knows it. It is read where [`COMMIT_TRACKER`] is what runs.
    pub(crate) original: Option<&'static str>,
}

impl Key {
    /// A key with nothing special about it.
    pub(crate) const PLAIN: Self = Self {
        section: "",
        name: "",
        description: &[],
        form: String::new,
        default: "",
        secret: false,
        required_for: &[],
        original: None,
    };

    /// The environment variable that overrides the key.
    pub(crate) fn variable(&self) -> String {
        variable(self.section, self.name)
    }
}

/// Keys that are accepted so that a file written for Grafana starts, and mean nothing here.
pub(crate) const UNUSED: &[(&str, &[&str])] = &[
    ("grpc_client_authentication", &["token_namespace"]),
    ("operator", &["folders_api_version", "jobs_enabled", "jobqueue_enabled"]),
    ("provisioning", &["disable_controllers"]),
    (
        "secrets_manager",
        &[
            "grpc_server_address",
            "grpc_server_use_tls",
            "grpc_server_tls_ca_file",
            "grpc_server_tls_server_name",
            "grpc_server_tls_skip_verify",
            "grpc_client_load_balancing",
        ],
    ),
    ("unified_storage", &["grpc_address", "grpc_index_address", "allow_insecure", "audiences"]),
];

/// Every key that means something, by section.
pub(crate) fn keys() -> impl Iterator<Item = &'static Key> {
    [
        AuthSettings::KEYS,
        OperatorSettings::KEYS,
        ProvisioningSettings::KEYS,
        CommitTrackerSettings::KEYS,
        SourceSettings::KEYS,
    ]
    .into_iter()
    .flatten()
}

/// The key of this name.
pub(crate) fn find(section: &str, key: &str) -> Option<&'static Key> {
    keys().find(|known| known.section == section && known.name == key)
}

/// Whether a key is accepted and means nothing.
pub(crate) fn is_unused(section: &str, key: &str) -> bool {
    UNUSED.iter().any(|(known, keys)| *known == section && keys.contains(&key))
}

/// Whether an unknown key in a section is an error.
pub(crate) fn is_owned(section: &str) -> bool {
    section == "windlass" || section.starts_with("windlass.") || keys().any(|key| key.section == section)
}

/// The known key of a section that is most like a name, if any is like it at all.
pub(crate) fn nearest(section: &str, name: &str) -> Option<&'static str> {
    keys()
        .filter(|known| known.section == section)
        .map(|known| (strsim::jaro_winkler(known.name, &name.to_ascii_lowercase()), known.name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, key)| key)
}

/// `GF_<SECTION>_<KEY>`, with `.` and `-` as `_`.
pub(crate) fn variable(section: &str, key: &str) -> String {
    format!("GF_{section}_{key}").to_ascii_uppercase().replace(['.', '-'], "_")
}

/// Declares a section: a struct with a field for each key, the keys, and how the fields are read.
///
/// A field is `key: Type = Form, "default" { what is special }`, where the form ([`crate::forms`]) reads the text as that
/// type. Its documentation is the key's description.
macro_rules! section {
    (
        $(#[$meta:meta])*
        $section:literal => $name:ident {
            $(
                $(#[doc = $line:literal])+
                $key:ident: $type:ty = $form:ty, $default:literal $({ $($mark:ident: $value:expr),+ })?;
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $($(#[doc = $line])+ pub $key: $type,)+
        }

        impl $name {
            /// The keys of the section.
            pub(crate) const KEYS: &[$crate::keys::Key] = &[$($crate::keys::Key {
                section: $section,
                name: stringify!($key),
                description: &[$($line),+],
                form: <$form as $crate::forms::Form<$type>>::describe,
                default: $default,
                $($($mark: $value,)+)?
                ..$crate::keys::Key::PLAIN
            }),+];

            /// The section, or nothing if a value is wrong: every error is told.
            pub(crate) fn read(values: &$crate::layers::Merged, errors: &mut Vec<$crate::SettingError>) -> Option<Self> {
                // All are read before the first that is missing ends it.
                $(let $key = values.read::<$form, $type>($section, stringify!($key), errors);)+
                Some(Self { $($key: $key?),+ })
            }
        }
    };
}
pub(crate) use section;
