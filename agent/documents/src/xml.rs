//! XML of untrusted documents: no entities of their own, so many nodes and no more.

use roxmltree::{Document, Node, ParsingOptions};

use super::DocumentError;

/// Limit on the number of nodes in a part.
const MAX_NODES: u32 = 4_000_000;
/// Levels that are walked into.
pub(crate) const MAX_DEPTH: usize = 400;
/// Levels that a part may have before it is parsed.
const MAX_NESTING: usize = 5_000;

/// The text of a part: UTF-8 unless its mark says otherwise.
pub(crate) fn decode(bytes: &[u8]) -> String {
    let (text, _, _) = encoding_rs::UTF_8.decode(bytes);
    text.into_owned()
}

/// Parses a part's XML, within limits on nesting and nodes.
pub(crate) fn parse(text: &str) -> Result<Document<'_>, DocumentError> {
    if nests_deeper(text, MAX_NESTING) {
        return Err(DocumentError::Damaged("its XML nests too deep".to_owned()));
    }
    let options =
        ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).map_err(|error| match error {
        roxmltree::Error::NodesLimitReached => {
            DocumentError::TooLarge(format!("a part of it has more than {MAX_NODES} elements"))
        }
        roxmltree::Error::DtdDetected => {
            DocumentError::Damaged("its XML defines entities of its own".to_owned())
        }
        error => DocumentError::damaged(error),
    })
}

/// A rough count of open tags, enough to keep a parser from a hostile part.
fn nests_deeper(text: &str, most: usize) -> bool {
    let (mut depth, bytes) = (0_usize, text.as_bytes());
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' if bytes.get(at + 1) == Some(&b'/') => depth = depth.saturating_sub(1),
            b'<' if bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic) => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'/' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > most {
            return true;
        }
    }
    false
}

/// Elements by local name: writers use several namespaces for the same.
pub(crate) trait Element<'a, 'input> {
    /// True for an element of this name in any namespace.
    fn has_tag_name_local(&self, name: &str) -> bool;
    /// An attribute in any namespace.
    fn attribute_local(&self, name: &str) -> Option<&'a str>;
    /// The first child element of this name.
    fn child(&self, name: &str) -> Option<Node<'a, 'input>>;
    /// The name without namespace; empty for what is no element.
    fn local(&self) -> &'a str;
    /// The relation that it refers to.
    fn relation_id(&self) -> Option<&'a str>;
    /// True if a switch such as `<w:vanish/>` is among its children and not off.
    fn is_switched(&self, name: &str) -> bool;
}

impl<'a, 'input: 'a> Element<'a, 'input> for Node<'a, 'input> {
    fn has_tag_name_local(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }

    fn attribute_local(&self, name: &str) -> Option<&'a str> {
        self.attributes()
            .find(|attribute| attribute.name() == name)
            .map(|attribute| attribute.value())
    }

    fn child(&self, name: &str) -> Option<Node<'a, 'input>> {
        self.children().find(|node| node.has_tag_name_local(name))
    }

    fn local(&self) -> &'a str {
        if self.is_element() { self.tag_name().name() } else { "" }
    }

    fn relation_id(&self) -> Option<&'a str> {
        let spaces = |attribute: &roxmltree::Attribute<'a, 'input>| {
            attribute.namespace().is_some_and(|space| space.ends_with("/relationships"))
        };
        let found = self.attributes().find(|attribute| {
            spaces(attribute) && ["id", "embed", "link"].contains(&attribute.name())
        });
        found.map(|attribute| attribute.value())
    }

    fn is_switched(&self, name: &str) -> bool {
        self.child(name)
            .is_some_and(|node| !matches!(node.attribute_local("val"), Some("0" | "false" | "off")))
    }
}
