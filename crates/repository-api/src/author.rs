//! Whose name the commits carry that a caller asks for.

use std::collections::BTreeMap;

use windlass_api::{CommitOptions, annotations};
use windlass_auth::Caller;
use windlass_repository::Signature;

/// Where mail to a caller goes of whom no address is known.
const NO_MAIL: &str = "noreply@windlass.dev";
/// Where the identity of a caller of this API comes from, in Grafana's words.
const ORIGIN: &str = "Grafana";

/// The caller as an author. A name that is an address is one, else the repository's own stands in.
pub(crate) fn of(caller: &Caller, options: Option<&CommitOptions>) -> Signature {
    let name = caller.name.clone();
    let configured = options.map(|options| options.author_email.as_str()).filter(|it| !it.is_empty());
    let email = if name.contains('@') { name.clone() } else { configured.unwrap_or(NO_MAIL).to_owned() };
    Signature { name, email }
}

/// The annotations of a job that the caller asks for, by which its worker knows them.
pub(crate) fn annotations(caller: &Caller, options: Option<&CommitOptions>) -> BTreeMap<String, String> {
    let Signature { name, email } = of(caller, options);
    let marks = [
        (annotations::AUTHOR, name),
        (annotations::AUTHOR_EMAIL, email),
        (annotations::AUTHOR_ID, caller.uid.clone()),
        (annotations::AUTHOR_ORIGIN, ORIGIN.to_owned()),
    ];
    marks.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
