//! Links in mrkdwn: Slack makes one of each address that somebody types.

/// True for the label of a link that Slack made of an address in a text: the address as it was typed.
#[must_use]
pub fn is_typed_label(target: &str, label: &str) -> bool {
    let schemes = ["http://", "https://", "mailto:", "tel:"];
    let typed = schemes.iter().find_map(|scheme| target.strip_prefix(scheme)).unwrap_or(target);
    let label = label.trim_end_matches('/');
    [target, typed].iter().any(|own| own.trim_end_matches('/') == label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_is_told_from_a_label_that_the_address_happens_to_end_with() {
        for (target, label) in [
            ("http://codebutler.pm", "codebutler.pm"),
            ("https://x.org/a?b=1&amp;c=2", "https://x.org/a?b=1&amp;c=2"),
            ("http://x.org/", "x.org"),
            ("https://x.org/", "x.org/"),
            ("mailto:a@x.org", "a@x.org"),
            ("tel:112", "112"),
        ] {
            assert!(is_typed_label(target, label), "{target} {label}");
        }
        for (target, label) in [
            ("https://x.org/issues/42", "42"),
            ("https://x.org/docs/", "docs"),
            ("https://x.org/@codebutler.pm", "@codebutler.pm"),
            ("https://evil.org/x.org", "x.org"),
            ("https://x.org", ""),
        ] {
            assert!(!is_typed_label(target, label), "{target} {label}");
        }
    }
}
