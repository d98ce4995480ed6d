//! Words of charts, diagrams and text boxes, which are parts of their own beside what shows them.

use super::DocumentError;
use super::package::{Package, Relations, relations_of};
use super::sink::{TextSink, one_line};
use super::xml::{self, Element};

/// A kind of part that has words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextPart {
    /// Kind of the relation to it.
    pub kind: &'static str,
    pub title: &'static str,
    /// Elements that have the words.
    pub names: &'static [&'static str],
}

pub(crate) const DIAGRAM: TextPart =
    TextPart { kind: "diagramData", title: "diagram", names: &["t"] };
pub(crate) const CHART: TextPart = TextPart { kind: "chart", title: "chart", names: &["v", "t"] };
/// The values of a chart are in the cells beside it.
pub(crate) const SHEET_CHART: TextPart = TextPart { kind: "chart", title: "chart", names: &["t"] };
pub(crate) const COMMENTS: TextPart =
    TextPart { kind: "comments", title: "comments", names: &["text", "t"] };

/// Adds the words of all parts of a kind, a line for each. One with XML that can't be read takes nothing else with it.
pub(crate) fn add_words(
    package: &mut Package,
    sink: &mut TextSink,
    relations: &Relations,
    part: TextPart,
) -> Result<(), DocumentError> {
    for target in relations_of(relations, part.kind) {
        let Some(text) = package.text(&target)? else { continue };
        let Ok(document) = xml::parse(&text) else {
            sink.line(&format!("[{}, which can't be read]", part.title));
            continue;
        };
        let words = document.root_element().descendants();
        let words = words.filter(|node| part.names.contains(&node.local()));
        let words: Vec<String> = words
            .filter_map(|node| node.text())
            .map(one_line)
            .filter(|text| !text.is_empty())
            .collect();
        if !words.is_empty() {
            sink.line(&format!("[{}: {}]", part.title, words.join("; ")));
        }
    }
    Ok(())
}

/// Adds what is drawn on a sheet: text boxes, charts and diagrams.
pub(crate) fn add_drawings(
    package: &mut Package,
    sink: &mut TextSink,
    relations: &Relations,
) -> Result<(), DocumentError> {
    for target in relations_of(relations, "drawing") {
        let Some(text) = package.text(&target)? else { continue };
        let own = package.relations(&target)?;
        let Ok(document) = xml::parse(&text) else {
            sink.line("[a drawing, which can't be read]");
            continue;
        };
        let shapes = document.root_element().descendants();
        for body in shapes.filter(|node| node.has_tag_name_local("txBody")) {
            let words = body.descendants().filter(|node| node.has_tag_name_local("p"));
            let words = words.map(|paragraph| {
                let texts = paragraph.descendants().filter(|node| node.has_tag_name_local("t"));
                one_line(&texts.filter_map(|node| node.text()).collect::<String>())
            });
            let words: Vec<String> = words.filter(|text| !text.is_empty()).collect();
            if !words.is_empty() {
                sink.line(&format!("[text box: {}]", words.join(" / ")));
            }
        }
        add_words(package, sink, &own, SHEET_CHART)?;
        add_words(package, sink, &own, DIAGRAM)?;
    }
    Ok(())
}
