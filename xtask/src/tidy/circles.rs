//! Circles of modules: files of one crate that name each other, so that none can be read without the others.
//!
//! An edge leads from a file to the file that defines what it names, by `use` or by a path. A re-export is another name of
//! a thing: it is followed to where the thing is, and is no edge itself. What only tests name is no edge either.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use anyhow::{Result, anyhow};
use cargo_metadata::Package;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::tracked;
use crate::shell::root;

/// How many files a circle may have.
const MOST: usize = 3;

/// A module's names from the crate's root down. A program of `src/bin` is a crate of its own: its first two names say so.
type Module = Vec<String>;

/// The circles that are too large, each with its edges.
pub(super) fn findings(packages: &[Package]) -> Result<Vec<String>> {
    let files = tracked(".rs")?;
    let mut findings = Vec::new();
    for package in packages {
        let folder = package.manifest_path.parent().ok_or_else(|| anyhow!("a manifest has a folder"))?;
        let source = folder.strip_prefix(root()).unwrap_or(folder).as_std_path().join("src");
        let mut sources = BTreeMap::new();
        for file in files.iter().filter(|file| file.starts_with(&source)) {
            let text = std::fs::read_to_string(root().join(file))?;
            sources.insert(file.strip_prefix(&source)?.to_owned(), text);
        }
        let circles = circles(&sources).map_err(|error| anyhow!("{}: {error}", package.name))?;
        for circle in circles.iter().filter(|circle| circle.len() > MOST) {
            findings.push(format!(
                "{}: {} files are a circle, over {MOST}:{}",
                package.name,
                circle.len(),
                shown(circle)
            ));
        }
    }
    Ok(findings)
}

/// Files that name each other, each with the files of the circle that it names, and by what.
type Circle = BTreeMap<Module, BTreeMap<Module, String>>;

fn shown(circle: &Circle) -> String {
    let name = |module: &Module| module.join("/");
    let edge = |(to, by): (&Module, &String)| format!("{} ({by})", name(to));
    let line = |(from, to): (&Module, &BTreeMap<Module, String>)| {
        format!("\n    {} -> {}", name(from), to.iter().map(edge).collect::<Vec<_>>().join(", "))
    };
    circle.iter().map(line).collect::<Vec<_>>().concat()
}

/// What one file says.
#[derive(Default)]
struct File {
    /// Modules whose tests these are.
    tests: BTreeSet<String>,
    /// Names that are defined here.
    defined: BTreeSet<String>,
    /// Names of other things, and paths of everything in a module (`*`), that are offered on.
    offered: Vec<(String, Vec<String>)>,
    /// Names of other things within the file.
    imported: Vec<(String, Vec<String>)>,
    /// Paths that stand anywhere else.
    paths: Vec<Vec<String>>,
}

/// All circles of more than one file.
fn circles(sources: &BTreeMap<PathBuf, String>) -> Result<Vec<Circle>> {
    let mut files = BTreeMap::new();
    for (path, text) in sources {
        let tokens = TokenStream::from_str(text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        let mut file = File::default();
        read(&tokens.into_iter().collect::<Vec<_>>(), true, &mut file);
        files.insert(module(path), file);
    }
    let tests: Vec<Module> = files
        .iter()
        .flat_map(|(at, file)| file.tests.iter().map(|name| [&at[..], std::slice::from_ref(name)].concat()))
        .collect();
    files.retain(|at, _| !tests.iter().any(|test| at.starts_with(test)));
    let edges: BTreeMap<Module, BTreeMap<Module, String>> =
        files.keys().map(|at| (at.clone(), named(&files, at))).collect();
    Ok(components(&edges))
}

/// The module that a file below `src` is.
fn module(path: &Path) -> Module {
    let mut names: Module =
        path.with_extension("").iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if matches!(names.last().map(String::as_str), Some("lib" | "main" | "mod")) {
        names.pop();
    }
    names
}

/// Reads tokens of one level. `top`: of the file itself, where names are defined.
fn read(tokens: &[TokenTree], top: bool, file: &mut File) {
    let word = |at: usize| match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => ident.to_string(),
        _ => String::new(),
    };
    let is = |at: usize, c: char| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == c);
    let end = |from: usize| (from..tokens.len()).find(|at| is(*at, ';')).unwrap_or(tokens.len());
    let (mut at, mut offered) = (0, false);
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Punct(_) if is(at, '#') && is_for_tests(tokens.get(at + 1)) => {
                // The item that follows.
                let item = (at + 2..tokens.len()).find(|at| !is(*at, '#') && !is(*at - 1, '#')).unwrap_or(at);
                let mut last = item;
                while last < tokens.len() && !is(last, ';') {
                    let ends =
                        matches!(&tokens[last], TokenTree::Group(g) if g.delimiter() == Delimiter::Brace);
                    if ends && word(item) != "use" {
                        break;
                    }
                    if word(last) == "mod" {
                        file.tests.insert(word(last + 1));
                    }
                    last += 1;
                }
                at = last + 1;
                continue;
            }
            TokenTree::Ident(ident) => match ident.to_string().as_str() {
                "pub" => {
                    offered = true;
                    at += 1;
                    if matches!(tokens.get(at), Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Parenthesis)
                    {
                        at += 1;
                    }
                    continue;
                }
                "use"
                    if !is(at.wrapping_sub(1), '.')
                        && matches!(tokens.get(at + 1), Some(TokenTree::Ident(_))) =>
                {
                    let last = end(at);
                    let names = if offered { &mut file.offered } else { &mut file.imported };
                    uses(&tokens[at + 1..last], &[], names);
                    (at, offered) = (last + 1, false);
                    continue;
                }
                "struct" | "enum" | "trait" | "type" | "fn" | "const" | "static" | "union" if top => {
                    file.defined.insert(word(at + 1));
                }
                _ if is(at + 1, ':')
                    && is(at + 2, ':')
                    && !is(at.wrapping_sub(1), ':')
                    && !is(at.wrapping_sub(1), '.') =>
                {
                    let mut path = vec![ident.to_string()];
                    while is(at + 1, ':') && is(at + 2, ':') && !word(at + 3).is_empty() {
                        path.push(word(at + 3));
                        at += 3;
                    }
                    file.paths.push(path);
                }
                _ => {}
            },
            TokenTree::Group(group) => {
                read(&group.stream().into_iter().collect::<Vec<_>>(), false, file);
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        offered = false;
        at += 1;
    }
}

fn is_for_tests(attribute: Option<&TokenTree>) -> bool {
    matches!(attribute, Some(TokenTree::Group(g)) if g.stream().to_string().replace(' ', "") == "cfg(test)")
}

/// The names that a tree of a `use` gives, each with its path.
fn uses(tree: &[TokenTree], before: &[String], names: &mut Vec<(String, Vec<String>)>) {
    let (mut path, mut alias) = (before.to_vec(), None);
    let mut tokens = tree.iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) if ident == "as" => alias = tokens.next().map(ToString::to_string),
            TokenTree::Ident(ident) if ident == "self" && !path.is_empty() => {}
            TokenTree::Ident(ident) => path.push(ident.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == '*' => path.push("*".to_owned()),
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let comma = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ',');
                inner.split(comma).filter(|part| !part.is_empty()).for_each(|part| uses(part, &path, names));
                return;
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
    names.push((name, path));
}

/// The files that one names, each with a path that names it.
fn named(files: &BTreeMap<Module, File>, at: &Module) -> BTreeMap<Module, String> {
    let mut edges = BTreeMap::new();
    let file = &files[at];
    // A module that is imported is a name only: what counts is what is named through it.
    let mut paths: Vec<Vec<String>> = Vec::new();
    for (_, path) in &file.imported {
        if path.last().is_some_and(|last| last == "*")
            || place(files, at, path, 0).is_some_and(|(_, rest)| !rest.is_empty())
        {
            paths.push(path.clone());
        }
    }
    for path in &file.paths {
        let import = file.imported.iter().find(|(name, _)| *name == path[0]);
        paths.push(match import {
            Some((_, whole)) => [&whole[..], &path[1..]].concat(),
            None => path.clone(),
        });
    }
    for path in paths {
        if let Some((to, _)) = place(files, at, &path, 0)
            && to != *at
        {
            edges.entry(to).or_insert_with(|| path.join("::"));
        }
    }
    edges
}

/// The file that a path leads to, seen from a module, and what is left of the path there. Re-exports are followed.
fn place(
    files: &BTreeMap<Module, File>,
    from: &Module,
    path: &[String],
    hops: u8,
) -> Option<(Module, Vec<String>)> {
    let start = if from.first().is_some_and(|name| name == "bin") { 2 } else { 0 };
    let (mut at, mut rest) = (from.clone(), path);
    match path.first()?.as_str() {
        "crate" => (at, rest) = (from.get(..start)?.to_vec(), &path[1..]),
        "self" | "super" => {
            while let [first, left @ ..] = rest
                && (first == "self" || first == "super")
            {
                if first == "super" {
                    at.pop();
                }
                rest = left;
            }
        }
        name => {
            if !files.contains_key(&[&at[..], &[name.to_owned()]].concat()) {
                return None;
            }
        }
    }
    while let [name, left @ ..] = rest {
        let below = [&at[..], std::slice::from_ref(name)].concat();
        if !files.contains_key(&below) {
            break;
        }
        (at, rest) = (below, left);
    }
    let file = files.get(&at)?;
    let Some((name, after)) = rest.split_first().filter(|_| hops < 8) else {
        return Some((at, rest.to_vec()));
    };
    if file.defined.contains(name) {
        return Some((at, rest.to_vec()));
    }
    for (offered, path) in &file.offered {
        let next = if offered == name {
            [&path[..], after].concat()
        } else if offered == "*" {
            [&path[..path.len() - 1], rest].concat()
        } else {
            continue;
        };
        match place(files, &at, &next, hops + 1) {
            Some((to, left)) if offered == name || files[&to].defined.contains(name) => {
                return Some((to, left));
            }
            _ => {}
        }
    }
    Some((at, rest.to_vec()))
}

/// The sets of more than one file that all lead to each other.
fn components(edges: &BTreeMap<Module, BTreeMap<Module, String>>) -> Vec<Circle> {
    let reached = |from: &Module| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(at) = next.pop() {
            for to in edges[at].keys() {
                if seen.insert(to) {
                    next.push(to);
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&Module, BTreeSet<&Module>> = edges.keys().map(|at| (at, reached(at))).collect();
    let mut found = Vec::new();
    let mut done = BTreeSet::new();
    for at in edges.keys() {
        let circle: BTreeSet<&Module> =
            reach[at].iter().copied().filter(|other| reach[other].contains(at)).collect();
        if circle.len() < 2 || !done.insert(circle.clone()) {
            continue;
        }
        let within = |from: &Module| {
            edges[from]
                .iter()
                .filter(|(to, _)| circle.contains(to))
                .map(|(to, by)| (to.clone(), by.clone()))
                .collect()
        };
        found.push(circle.iter().map(|from| ((*from).clone(), within(from))).collect());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources = files
            .iter()
            .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()))
            .collect::<BTreeMap<_, _>>();
        let circles = match circles(&sources) {
            Ok(circles) => circles,
            Err(error) => return vec![vec![error.to_string()]],
        };
        circles.iter().map(|circle| circle.keys().map(|at| at.join("/")).collect()).collect()
    }

    #[test]
    fn files_that_name_each_other_by_imports_and_paths_are_a_circle() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::{self, B as Other}; pub struct A;"),
            ("b.rs", "pub(crate) struct B; fn f() { json!([super::c::C]); }"),
            ("c.rs", "use super::{a, b}; pub struct C(a::A);"),
        ];
        assert_eq!(circles_of(&files), [["a", "b", "c"]]);
    }

    #[test]
    fn a_re_export_is_followed_and_is_no_edge() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            (
                "a.rs",
                "mod inner; mod other; pub(crate) use self::inner::Inner; pub use other::*; pub struct A;",
            ),
            ("a/inner.rs", "use super::A; use crate::b::B; pub struct Inner;"),
            ("a/other.rs", "pub struct Other;"),
            ("b.rs", "use crate::a::Other; pub struct B;"),
        ];
        assert_eq!(circles_of(&files), Vec::<Vec<String>>::new());
        let files = files.map(|(path, text)| (path, text.replace("a::Other", "a::Inner")));
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        assert_eq!(circles_of(&files), [["a/inner", "b"]]);
    }

    #[test]
    fn what_tests_and_texts_name_is_no_edge() {
        let files = [
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod tests;"),
            ("a.rs", "use crate::b::B; pub struct A; // crate::a"),
            (
                "b.rs",
                "/// [`crate::a::A`]\npub struct B; const S: &str = \"crate::a::A\";\n#[cfg(test)]\nmod tests { use crate::a::A; }",
            ),
            ("tests.rs", "use crate::{a::A, b::B};"),
        ];
        assert_eq!(circles_of(&files), Vec::<Vec<String>>::new());
    }
}
