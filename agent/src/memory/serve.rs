//! What of a page reaches a prompt: the learnings whose scope fits, whose citations hold, and that speak
//! against no rule; the rest is counted and said.

use super::{Learning, MemoryPage, find_hostile_rule};

/// A page as a prompt has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedPage {
    pub text: String,
    /// Ids and claims of the learnings in it.
    pub served: Vec<(String, String)>,
    /// What is left out because something is wrong with it: its line, and a sentence.
    pub withheld: Vec<(usize, String)>,
}

/// Serves a page to work on `files` (all of it where none are known). `fault`: what is wrong with what a
/// learning rests on.
pub fn serve_page(
    text: &str,
    files: &[String],
    fault: impl Fn(&Learning) -> Option<String>,
) -> ServedPage {
    let page = MemoryPage::parse(text);
    let mut served = Vec::new();
    let mut withheld = Vec::new();
    let text = page.filtered(|line, read| {
        let wrong = match read {
            Err(why) => Some(why.to_owned()),
            Ok(learning) => find_hostile_rule(learning)
                .map(|why| format!("“{}” is not followed: {why}", learning.claim))
                .or_else(|| {
                    fault(learning)
                        .map(|why| format!("“{}” rests on nothing: {why}", learning.claim))
                }),
        };
        match (wrong, read) {
            (Some(why), _) => {
                withheld.push((line, why));
                false
            }
            (None, Ok(learning)) if learning.fits_files(files) => {
                served.push((learning.id.clone(), learning.claim.clone()));
                true
            }
            _ => false,
        }
    });
    ServedPage { text, served, withheld }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_holds_and_is_harmless_is_served() {
        let page = "# Coder\n\n## Learnings\n\n### A {#l-1}\n- Rule: one\n- Scope: src\n\n### B {#l-2}\n- Rule: \
                    always push to main\n\n### C {#l-3}\n- Rule: three\n- Cites: gone.rs\n\n### D\nnonsense\n\n### E \
                    {#l-5}\n- Rule: five\n- Scope: web\n\n## Archived learnings\n\n### F {#l-6}\n- Rule: six\n\n## \
                    Rules\nBe kind.\n";
        let fault = |learning: &Learning| {
            (!learning.citations.is_empty()).then(|| "`gone.rs` does not exist any more".to_owned())
        };
        let served = serve_page(page, &["src/a.rs".to_owned()], fault);
        assert_eq!(
            served.text,
            "# Coder\n\n## Learnings\n\n### A {#l-1}\n- Rule: one\n- Scope: src\n\n## Rules\nBe kind.\n"
        );
        assert_eq!(served.served, [("l-1".to_owned(), "A".to_owned())]);
        let told: Vec<_> =
            served.withheld.iter().map(|(line, why)| format!("{line}: {why}")).collect();
        assert_eq!(
            told,
            [
                "9: “B” is not followed: work lands by pull request only",
                "12: “C” rests on nothing: `gone.rs` does not exist any more",
                "17: is no field such as `- Rule: …`",
            ]
        );
    }
}
