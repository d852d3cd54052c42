//! What a repository says of the repositories in it: `.gitmodules`, and where their URLs lead (Git: `gitmodules`).

use url::Url;
use windlass_http_client::printable;

use crate::GitError;

/// A repository in another, at a path of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Submodule {
    /// Where it is in the other, as `.gitmodules` says it.
    pub path: String,
    /// Where it comes from; see [`submodule_url`].
    pub url: String,
}

/// The submodules that a file `.gitmodules` names with a path and a URL. What is no line of such a file is passed over.
pub fn submodules(text: &str) -> Vec<Submodule> {
    let mut sections: Vec<(String, Submodule)> = Vec::new();
    let mut current = None;
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            let name = header.strip_suffix(']').and_then(|header| header.strip_prefix("submodule "));
            current = name.map(|name| match sections.iter().position(|(known, _)| known == name) {
                Some(known) => known,
                None => {
                    sections.push((name.to_owned(), Submodule::default()));
                    sections.len() - 1
                }
            });
            continue;
        }
        let (Some(current), Some((key, value))) = (current, line.split_once('=')) else { continue };
        let module = &mut sections[current].1;
        match key.trim().to_ascii_lowercase().as_str() {
            "path" => module.path = plain(value.trim()),
            "url" => module.url = plain(value.trim()),
            _ => {}
        }
    }
    let all = sections.into_iter().map(|(_, module)| module);
    all.filter(|module| !module.path.is_empty() && !module.url.is_empty()).collect()
}

/// A value without its quotes, escapes and comment.
fn plain(value: &str) -> String {
    let (mut plain, mut quoted, mut chars) = (String::new(), false, value.chars());
    while let Some(c) = chars.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' => plain.extend(chars.next()),
            '#' | ';' if !quoted => break,
            c => plain.push(c),
        }
    }
    if quoted { plain } else { plain.trim_end().to_owned() }
}

/// The URL that `url`, out of the `.gitmodules` of the repository at `parent`, stands for: relative to that one where it
/// begins with `./` or `../`; `user@host:path` is `ssh://user@host/path`.
///
/// # Errors
/// [`GitError::PolicyRefused`] for what is no URL of a server: paths, `file:`, and programs to run.
pub fn submodule_url(parent: &str, url: &str) -> Result<String, GitError> {
    let refuse = |detail: &str| GitError::PolicyRefused {
        url: crate::policy::without_user_info(&printable(url, 200)),
        detail: format!("{detail}, in the .gitmodules of {}", crate::policy::without_user_info(parent)),
    };
    if url.chars().any(char::is_control) {
        return Err(refuse("it has control characters"));
    }
    if url.starts_with("./") || url.starts_with("../") {
        let mut base = Url::parse(parent).map_err(|_| refuse("it is relative to what is no URL"))?;
        let mut segments: Vec<&str> =
            parent_segments(&base).ok_or_else(|| refuse("it is relative to what has no path"))?;
        for segment in url.split('/') {
            match segment {
                "" | "." => {}
                ".." if segments.pop().is_some() => {}
                ".." => return Err(refuse("it leads out of the server")),
                name => segments.push(name),
            }
        }
        let path = format!("/{}", segments.join("/"));
        base.set_path(&path);
        return Ok(base.into());
    }
    if let Some((scheme, _)) = url.split_once("://") {
        return match scheme {
            "https" | "http" | "ssh" => Ok(url.to_owned()),
            _ => Err(refuse("its scheme is none of https, http and ssh")),
        };
    }
    // As Git reads it: what has a colon before any slash is a host and a path.
    match url.split_once(':') {
        Some((host, path)) if !host.contains('/') && !host.is_empty() && !path.starts_with(':') => {
            Ok(format!("ssh://{host}/{}", path.trim_start_matches('/')))
        }
        _ => Err(refuse("it is no URL of a server")),
    }
}

fn parent_segments(base: &Url) -> Option<Vec<&str>> {
    Some(base.path_segments()?.filter(|segment| !segment.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_submodules_is_read_as_git_does() {
        let text = "# ours\n[submodule \"a\"]\n\tpath = lib/a\n\turl = ../a.git ; relative\n[core]\n\turl = x\n\
                    [submodule \"b c\"]\n\turl = \"https://host/b#c.git\"\n\tPath=\"b c\"\n[submodule \"half\"]\n\tpath = x\n\
                    [submodule \"a\"]\n\tbranch = main\n";
        let module = |path: &str, url: &str| Submodule { path: path.to_owned(), url: url.to_owned() };
        assert_eq!(submodules(text), [module("lib/a", "../a.git"), module("b c", "https://host/b#c.git")]);
        assert!(submodules("\u{0}[submodule\nurl = x\npath=y").is_empty());
    }

    #[test]
    fn urls_lead_to_servers_and_nowhere_else() {
        let parent = "https://host:8443/group/app.git";
        for (url, wanted) in [
            ("../lib.git", "https://host:8443/group/lib.git"),
            ("./lib.git", "https://host:8443/group/app.git/lib.git"),
            ("../../other/./lib", "https://host:8443/other/lib"),
            ("https://other/x", "https://other/x"),
            ("git@other:group/x.git", "ssh://git@other/group/x.git"),
            ("ssh://git@other/x", "ssh://git@other/x"),
        ] {
            assert_eq!(submodule_url(parent, url).unwrap(), wanted, "{url}");
        }
        assert_eq!(submodule_url("ssh://git@host/group/app", "../lib").unwrap(), "ssh://git@host/group/lib");
        for url in [
            "../../../x",
            "/etc",
            "file:///etc",
            "ext::sh -c id",
            "--upload-pack=id",
            "lib",
            "git://host/x",
            "../\nlib",
        ] {
            assert!(submodule_url(parent, url).is_err(), "{url}");
        }
    }
}
