//! Messages of commits that change one resource, by the repository's template.

/// Characters of a value in a template at most.
const MAX_VALUE: usize = 200;

/// What the template of a message may name.
#[derive(Clone, Debug, Default)]
pub struct MessageVariables<'a> {
    /// `action`: `create`, `update`, `delete` or `move`.
    pub action: &'a str,
    /// `resourceKind`.
    pub kind: &'a str,
    /// `resourceID`: the resource's name.
    pub name: &'a str,
    /// `title`.
    pub title: &'a str,
    /// `userName` and `userLogin`.
    pub user_name: &'a str,
    /// `userEmail`.
    pub user_email: &'a str,
}

impl MessageVariables<'_> {
    /// A template with each `{{variable}}` replaced, control characters left out. Unknown names stay as they are.
    pub fn fill_in(&self, template: &str) -> String {
        let (mut out, mut rest) = (String::new(), template);
        while let Some(start) = rest.find("{{") {
            let Some(length) = rest[start..].find("}}") else { break };
            let name = rest[start + 2..start + length].trim();
            let value = match name {
                "action" => Some(self.action),
                "resourceKind" => Some(self.kind),
                "resourceID" => Some(self.name),
                "title" => Some(self.title),
                "userName" | "userLogin" => Some(self.user_name),
                "userEmail" => Some(self.user_email),
                _ => None,
            };
            out.push_str(&rest[..start]);
            match value {
                Some(value) => out.extend(value.chars().filter(|c| !c.is_control()).take(MAX_VALUE)),
                None => out.push_str(&rest[start..start + length + 2]),
            }
            rest = &rest[start + length + 2..];
        }
        out.push_str(rest);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_filled_in_and_what_it_does_not_know_stays() {
        let variables = MessageVariables {
            action: "update",
            kind: "Dashboard",
            name: "abc",
            title: "A\nB",
            user_name: "ann",
            user_email: "a@b.c",
        };
        let template = "{{action}} {{ resourceKind }} {{title}} ({{resourceID}}) {{x}} by {{userLogin}} <{{userEmail}}> {{";
        assert_eq!(variables.fill_in(template), "update Dashboard AB (abc) {{x}} by ann <a@b.c> {{");
    }
}
