//! Patterns for names of tools: `*` and `?`, `[…]` and `{…,…}`.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// A pattern that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is no pattern for names of tools: {reason}")]
pub struct PatternError {
    pub pattern: String,
    /// Problem with the pattern.
    pub reason: String,
}

/// A set of patterns; a name matches if one of them does.
#[derive(Clone, Debug)]
pub struct NamePatterns(GlobSet);

impl NamePatterns {
    /// Compiles the patterns; the first that can't be read is an error.
    pub fn new<P: AsRef<str>>(patterns: &[P]) -> Result<Self, PatternError> {
        let error = |pattern: &str, error: &globset::Error| PatternError {
            pattern: pattern.to_owned(),
            reason: error.kind().to_string(),
        };
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let glob =
                GlobBuilder::new(pattern).literal_separator(false).backslash_escape(true).build();
            set.add(glob.map_err(|reason| error(pattern, &reason))?);
        }
        Ok(Self(set.build().map_err(|reason| error("", &reason))?))
    }

    /// True if one of them matches the whole name.
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

/// The tools of a server that may be used, by the server's own names.
#[derive(Clone, Debug)]
pub struct ToolFilter {
    allow: Option<NamePatterns>,
    deny: NamePatterns,
}

impl ToolFilter {
    /// Compiles the filter. Without a pattern to allow, all names are allowed that are not denied.
    pub fn new<P: AsRef<str>>(allow: &[P], deny: &[P]) -> Result<Self, PatternError> {
        let allowed = if allow.is_empty() { None } else { Some(NamePatterns::new(allow)?) };
        Ok(Self { allow: allowed, deny: NamePatterns::new(deny)? })
    }

    /// True if a tool may be used. A pattern to deny wins over one to allow.
    pub fn allows(&self, tool: &str) -> bool {
        !self.deny.matches(tool) && self.allow.as_ref().is_none_or(|allow| allow.matches(tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_denied_stays_denied() {
        let filter =
            ToolFilter::new(&["browser_*", "a/*"], &["browser_run_code_unsafe", "*_{delete,drop}"])
                .unwrap();
        for (tool, expected) in [
            ("browser_click", true),
            ("browser_run_code_unsafe", false),
            ("browser_delete", false),
            ("a/b/c", true),
            ("xbrowser_click", false),
            ("Browser_click", false),
        ] {
            assert_eq!(filter.allows(tool), expected, "{tool}");
        }
        let open = ToolFilter::new::<&str>(&[], &[]).unwrap();
        assert!(open.allows("anything"));
        let error = ToolFilter::new(&["a[b"], &[]).unwrap_err();
        assert!(
            error.to_string().starts_with("`a[b` is no pattern for names of tools:"),
            "{error}"
        );
    }

    #[test]
    fn roles_name_servers_by_pattern() {
        let role = NamePatterns::new(&["mcp__sentry__*", "Read"]).unwrap();
        assert!(role.matches("mcp__sentry__search") && role.matches("Read"));
        assert!(!role.matches("mcp__sentry2__search") && !role.matches("Reader"));
    }
}
