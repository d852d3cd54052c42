//! A repository's tags, page by page.

use http::HeaderMap;
use http::header::LINK;
use serde::Deserialize;
use url::Url;

/// The tags of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// As the registry orders them: most by name.
    pub tags: Vec<String>,
    /// Whether these are all.
    pub complete: bool,
}

#[derive(Deserialize)]
pub(crate) struct Page {
    #[serde(default)]
    pub(crate) tags: Option<Vec<String>>,
}

/// Where the next page is: `Link: <…>; rel="next"`, on the same server.
pub(crate) fn next_page(page: &Url, headers: &HeaderMap) -> Option<Url> {
    headers.get_all(LINK).iter().filter_map(|link| link.to_str().ok()).find_map(|link| {
        let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = parameters
            .split(';')
            .filter_map(|parameter| parameter.trim().split_once('='))
            .any(|(name, value)| name.eq_ignore_ascii_case("rel") && value.trim_matches('"') == "next");
        let next = page.join(target).ok().filter(|next| next.origin() == page.origin())?;
        is_next.then_some(next)
    })
}

#[cfg(test)]
mod tests {
    use super::next_page;
    use http::{HeaderMap, HeaderValue};

    #[test]
    fn the_next_page_is_on_the_same_server() {
        let page = "https://r.example.org/v2/a/tags/list?n=2".parse().unwrap();
        for (link, next) in [
            (
                r#"</v2/a/tags/list?last=b&n=2>; rel="next""#,
                Some("https://r.example.org/v2/a/tags/list?last=b&n=2"),
            ),
            ("<https://r.example.org/x>; rel=next", Some("https://r.example.org/x")),
            (r#"<https://elsewhere.example.org/x>; rel="next""#, None),
            (r#"<http://r.example.org/x>; rel="next""#, None),
            (r#"</x>; rel="prev""#, None),
            ("nonsense", None),
            ("<", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("link", HeaderValue::from_static(link));
            assert_eq!(next_page(&page, &headers).as_ref().map(url::Url::as_str), next, "{link}");
        }
    }
}
