//! Nesting depth of a page's elements, as a browser's parser reads it: comments, attributes, scripts and what is
//! closed by itself count as they do there. Nothing of the page is kept.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{ByteTendril, StrTendril, TendrilSink as _};
use html5ever::{Attribute, ParseOpts, QualName, local_name, ns, parse_document};

/// Looked at between two questions how deep it is by now, in bytes.
const CHUNK: usize = 2048;

/// A page that is too deep to be laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooDeep;

/// Measures the nesting depth of a page.
///
/// # Errors
/// As soon as it is deeper than `most`: what it costs to read on grows with the depth.
pub(super) fn measure_depth(html: &[u8], most: usize) -> Result<usize, TooDeep> {
    let deepest = Rc::new(Cell::new(0));
    let counter = DepthCounter { document: PageNode::new(None), deepest: Rc::clone(&deepest) };
    let mut parser = parse_document(counter, ParseOpts::default()).from_utf8();
    for chunk in html.chunks(CHUNK) {
        parser.process(ByteTendril::from_slice(chunk));
        if deepest.get() > most {
            return Err(TooDeep);
        }
    }
    Ok(deepest.get())
}

/// An element, or what holds some, with its depth once it has a place.
#[derive(Debug)]
struct PageNode {
    name: QualName,
    depth: Cell<usize>,
}

type NodeRef = Rc<PageNode>;

impl PageNode {
    fn new(name: Option<QualName>) -> NodeRef {
        let other = || QualName::new(None, ns!(html), local_name!(""));
        Rc::new(Self { name: name.unwrap_or_else(other), depth: Cell::new(0) })
    }
}

struct DepthCounter {
    document: NodeRef,
    deepest: Rc<Cell<usize>>,
}

impl DepthCounter {
    fn place(&self, child: &NodeOrText<NodeRef>, depth: usize) {
        if let NodeOrText::AppendNode(node) = child {
            node.depth.set(depth);
            self.deepest.set(self.deepest.get().max(depth));
        }
    }
}

impl TreeSink for DepthCounter {
    type Handle = NodeRef;
    type Output = ();
    type ElemName<'a> = &'a QualName;

    fn finish(self) {}

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> NodeRef {
        Rc::clone(&self.document)
    }

    fn elem_name<'a>(&'a self, target: &'a NodeRef) -> &'a QualName {
        &target.name
    }

    fn create_element(&self, name: QualName, _: Vec<Attribute>, _: ElementFlags) -> NodeRef {
        PageNode::new(Some(name))
    }

    fn create_comment(&self, _: StrTendril) -> NodeRef {
        PageNode::new(None)
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> NodeRef {
        PageNode::new(None)
    }

    fn append(&self, parent: &NodeRef, child: NodeOrText<NodeRef>) {
        self.place(&child, parent.depth.get() + 1);
    }

    fn append_based_on_parent_node(
        &self,
        element: &NodeRef,
        before: &NodeRef,
        child: NodeOrText<NodeRef>,
    ) {
        // Whichever of them it is put beside or into.
        self.place(&child, element.depth.get().max(before.depth.get() + 1));
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, target: &NodeRef) -> NodeRef {
        Rc::clone(target)
    }

    fn same_node(&self, one: &NodeRef, other: &NodeRef) -> bool {
        Rc::ptr_eq(one, other)
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &NodeRef, child: NodeOrText<NodeRef>) {
        self.place(&child, sibling.depth.get());
    }

    fn add_attrs_if_missing(&self, _: &NodeRef, _: Vec<Attribute>) {}

    fn remove_from_parent(&self, _: &NodeRef) {}

    fn reparent_children(&self, _: &NodeRef, _: &NodeRef) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_looks_like_an_end_closes_nothing() {
        for piece in [
            "<div>",
            "<div><!--</div>-->",
            "<div title=\"</div>\">",
            "<div><script>'</div>'</script>",
            "<div><style></div></style>",
            "<div><textarea></div></textarea>",
            "<div></span>",
            "<div><object></div></object>",
            "<div><svg><desc></div></desc></svg>",
            "<table><tr><td></div>",
            "<template>",
            "<svg><g>",
        ] {
            assert_eq!(measure_depth(piece.repeat(1000).as_bytes(), 400), Err(TooDeep), "{piece}");
        }
    }

    #[test]
    fn an_ordinary_page_is_not_deep_however_long_it_is() {
        for piece in [
            "<div class=a><p>one<p>two<br>three<img src=x><ul><li>a<li>b</ul></div>",
            "<table><tr><td>a<td>b<tr><td>c</table>",
            "<b a=1><p></b>",
            "<svg viewBox='0 0 1 1'><path d='M0'/><g><circle r=1 /></g></svg>",
            "<!-- <div> --><script>if (a < b) { '<div>' }</script>",
        ] {
            let depth = measure_depth(piece.repeat(5000).as_bytes(), 400).unwrap();
            assert!(depth < 20, "{piece}: {depth}");
        }
    }
}
