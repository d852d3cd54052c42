//! What is known of one key.

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
    /// The variable by which grafana/flux-commit-tracker knows it. It is read where [`COMMIT_TRACKER`](crate::COMMIT_TRACKER) is what runs.
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

/// `GF_<SECTION>_<KEY>`, with `.` and `-` as `_`.
pub(crate) fn variable(section: &str, key: &str) -> String {
    format!("GF_{section}_{key}").to_ascii_uppercase().replace(['.', '-'], "_")
}
