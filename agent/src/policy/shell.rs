//! What a shell script would run, as far as it can be known without running it: every simple command
//! in it, wherever it hides, with its words. Pure.

use std::collections::HashMap;
use std::io::Cursor;

use brush_parser::ast::{
    self, AndOr, Command, CommandPrefixOrSuffixItem as Item, CompoundCommand, CompoundList,
    IoFileRedirectKind, IoFileRedirectTarget, IoRedirect, SimpleCommand, Word,
};
use brush_parser::word::{Parameter, ParameterExpr, WordPiece, WordPieceWithSource};
use brush_parser::{Parser, ParserOptions, word};

/// A word: its text, or nothing where that is only known when it runs.
pub type Arg = Option<String>;

/// One simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple {
    /// The program and its arguments.
    pub words: Vec<Arg>,
    /// Files that it writes by redirection.
    pub writes: Vec<Arg>,
    /// What a here-document or here-string feeds it.
    pub input: Option<String>,
    /// Whether another command's output is its input.
    pub piped: bool,
}

/// No shell would take it, or this parser does not.
#[derive(Debug, PartialEq, Eq)]
pub struct Unparsed;

/// Scripts in scripts in scripts.
const DEEPEST: usize = 12;

/// All simple commands of a script.
pub fn commands(script: &str) -> Result<Vec<Simple>, Unparsed> {
    let mut walk = Walk::default();
    walk.script(script)?;
    Ok(walk.found)
}

#[derive(Default)]
struct Walk {
    found: Vec<Simple>,
    /// Literal assignments so far.
    variables: HashMap<String, String>,
    depth: usize,
}

type Done = Result<(), Unparsed>;

impl Walk {
    fn script(&mut self, script: &str) -> Done {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Unparsed);
        }
        let mut parser = Parser::new(Cursor::new(script.as_bytes()), &ParserOptions::default());
        let program = parser.parse_program().map_err(|_| Unparsed)?;
        for list in &program.complete_commands {
            self.list(list)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn list(&mut self, list: &CompoundList) -> Done {
        for ast::CompoundListItem(and_or, _) in &list.0 {
            self.pipeline(&and_or.first)?;
            for next in &and_or.additional {
                let (AndOr::And(pipeline) | AndOr::Or(pipeline)) = next;
                self.pipeline(pipeline)?;
            }
        }
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &ast::Pipeline) -> Done {
        for (place, command) in pipeline.seq.iter().enumerate() {
            self.command(command, place > 0)?;
        }
        Ok(())
    }

    fn command(&mut self, command: &Command, piped: bool) -> Done {
        match command {
            Command::Simple(simple) => self.simple(simple, piped),
            Command::Compound(compound, redirects) => {
                // A loop that reads from a pipe feeds what is in it.
                let before = self.found.len();
                self.compound(compound)?;
                for found in &mut self.found[before..] {
                    found.piped |= piped;
                }
                self.redirects(redirects.as_ref())
            }
            Command::Function(function) => {
                let ast::FunctionBody(body, redirects) = &function.body;
                self.compound(body)?;
                self.redirects(redirects.as_ref())
            }
            Command::ExtendedTest(test, redirects) => {
                self.test(&test.expr)?;
                self.redirects(redirects.as_ref())
            }
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) -> Done {
        match compound {
            CompoundCommand::Arithmetic(arithmetic) => self.text(&arithmetic.expr.value),
            CompoundCommand::ArithmeticForClause(clause) => {
                let parts = [&clause.initializer, &clause.condition, &clause.updater];
                for part in parts.into_iter().flatten() {
                    self.text(&part.value)?;
                }
                self.list(&clause.body.list)
            }
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(shell) => self.list(&shell.list),
            CompoundCommand::ForClause(clause) => {
                for value in clause.values.iter().flatten() {
                    self.word(value)?;
                }
                self.variables.remove(&clause.variable_name);
                self.list(&clause.body.list)
            }
            CompoundCommand::CaseClause(clause) => {
                self.word(&clause.value)?;
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        self.word(pattern)?;
                    }
                    if let Some(list) = &case.cmd {
                        self.list(list)?;
                    }
                }
                Ok(())
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition)?;
                self.list(&clause.then)?;
                for other in clause.elses.iter().flatten() {
                    if let Some(condition) = &other.condition {
                        self.list(condition)?;
                    }
                    self.list(&other.body)?;
                }
                Ok(())
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0)?;
                self.list(&clause.1.list)
            }
            CompoundCommand::Coprocess(process) => self.command(&process.body, false),
        }
    }

    fn test(&mut self, test: &ast::ExtendedTestExpr) -> Done {
        use ast::ExtendedTestExpr as T;
        match test {
            T::And(a, b) | T::Or(a, b) => {
                self.test(a)?;
                self.test(b)
            }
            T::Not(a) | T::Parenthesized(a) => self.test(a),
            T::UnaryTest(_, word) => self.word(word).map(drop),
            T::BinaryTest(_, a, b) => {
                self.word(a)?;
                self.word(b).map(drop)
            }
        }
    }

    fn simple(&mut self, simple: &SimpleCommand, piped: bool) -> Done {
        let mut out = Simple { piped, ..Simple::default() };
        let named = simple.word_or_name.is_some();
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            self.item(item, &mut out, !named)?;
        }
        if let Some(name) = &simple.word_or_name {
            let name = self.word(name)?;
            out.words.push(name);
        }
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut out, false)?;
        }
        self.found.push(out);
        Ok(())
    }

    fn item(&mut self, item: &Item, out: &mut Simple, keeps: bool) -> Done {
        match item {
            Item::IoRedirect(redirect) => self.redirect(redirect, out),
            Item::Word(word) => {
                let word = self.word(word)?;
                out.words.push(word);
                Ok(())
            }
            Item::AssignmentWord(assignment, word) => {
                let value = match &assignment.value {
                    ast::AssignmentValue::Scalar(value) => self.word(value)?,
                    ast::AssignmentValue::Array(values) => {
                        for (_, value) in values {
                            self.word(value)?;
                        }
                        None
                    }
                };
                if let ast::AssignmentName::VariableName(name) = &assignment.name {
                    match value.filter(|_| keeps) {
                        Some(value) => self.variables.insert(name.clone(), value),
                        None => self.variables.remove(name),
                    };
                }
                // `export X=1` and `env X=1 cmd` have assignments among their arguments.
                if !out.words.is_empty() {
                    let before = self.found.len();
                    let whole = self.word(word)?;
                    self.found.truncate(before);
                    out.words.push(whole);
                }
                Ok(())
            }
            Item::ProcessSubstitution(_, shell) => {
                out.words.push(None);
                self.list(&shell.list)
            }
        }
    }

    fn redirects(&mut self, redirects: Option<&ast::RedirectList>) -> Done {
        let mut out = Simple::default();
        for redirect in redirects.iter().flat_map(|list| &list.0) {
            self.redirect(redirect, &mut out)?;
        }
        if !out.writes.is_empty() {
            self.found.push(out);
        }
        Ok(())
    }

    fn redirect(&mut self, redirect: &IoRedirect, out: &mut Simple) -> Done {
        match redirect {
            IoRedirect::File(_, kind, target) => {
                let reads =
                    matches!(kind, IoFileRedirectKind::Read | IoFileRedirectKind::DuplicateInput);
                match target {
                    IoFileRedirectTarget::Filename(file) => {
                        let file = self.word(file)?;
                        if !reads {
                            out.writes.push(file);
                        }
                        Ok(())
                    }
                    IoFileRedirectTarget::ProcessSubstitution(_, shell) => self.list(&shell.list),
                    IoFileRedirectTarget::Duplicate(word) => self.word(word).map(drop),
                    IoFileRedirectTarget::Fd(_) => Ok(()),
                }
            }
            IoRedirect::HereDocument(_, document) => {
                if document.requires_expansion {
                    self.text(&document.doc.value)?;
                }
                out.input = Some(document.doc.value.clone());
                Ok(())
            }
            IoRedirect::HereString(_, word) => {
                let text = self.word(word)?;
                out.input = Some(text.unwrap_or_else(|| word.value.clone()));
                Ok(())
            }
            IoRedirect::OutputAndError(file, _) => {
                let file = self.word(file)?;
                out.writes.push(file);
                Ok(())
            }
        }
    }

    /// The word's text if it is certain; the commands inside it are found either way.
    fn word(&mut self, word: &Word) -> Result<Arg, Unparsed> {
        let pieces = word::parse(&word.value, &ParserOptions::default()).map_err(|_| Unparsed)?;
        self.pieces(&word.value, &pieces)
    }

    /// Looks for commands in text that expands like a word.
    fn text(&mut self, text: &str) -> Done {
        if text.contains("$(") || text.contains('`') || text.contains("${") {
            let pieces =
                word::parse_heredoc(text, &ParserOptions::default()).map_err(|_| Unparsed)?;
            self.pieces(text, &pieces)?;
        }
        Ok(())
    }

    fn pieces(&mut self, source: &str, pieces: &[WordPieceWithSource]) -> Result<Arg, Unparsed> {
        let mut out = Some(String::new());
        for piece in pieces {
            let text = match &piece.piece {
                WordPiece::Text(text) | WordPiece::SingleQuotedText(text) => Some(text.clone()),
                WordPiece::EscapeSequence(text) => {
                    Some(text.strip_prefix('\\').unwrap_or(text).to_owned())
                }
                // Its escapes can spell anything.
                WordPiece::AnsiCQuotedText(text) => {
                    Some(text.clone()).filter(|t| !t.contains('\\'))
                }
                WordPiece::DoubleQuotedSequence(inner)
                | WordPiece::GettextDoubleQuotedSequence(inner) => self.pieces(source, inner)?,
                WordPiece::TildeExpansion(_) => Some("~".to_owned()),
                WordPiece::ParameterExpansion(parameter) => {
                    let end = source
                        .char_indices()
                        .nth(piece.end_index)
                        .map_or(source.len(), |(at, _)| at);
                    let start =
                        source.char_indices().nth(piece.start_index).map_or(end, |(at, _)| at);
                    self.parameter(parameter, source.get(start..end).unwrap_or(source))?
                }
                WordPiece::CommandSubstitution(script) => {
                    self.script(script)?;
                    None
                }
                WordPiece::BackquotedCommandSubstitution(script) => {
                    self.script(&script.replace("\\`", "`"))?;
                    None
                }
                WordPiece::ArithmeticExpression(arithmetic) => {
                    self.text(&arithmetic.value)?;
                    None
                }
            };
            out = out.zip(text).map(|(mut out, text)| {
                out.push_str(&text);
                out
            });
        }
        Ok(out)
    }

    /// `$x`, if `x` was set to something certain before; commands inside `${…}` are found.
    fn parameter(&mut self, parameter: &ParameterExpr, source: &str) -> Result<Arg, Unparsed> {
        if let ParameterExpr::Parameter { parameter: Parameter::Named(name), indirect: false } =
            parameter
        {
            return Ok(self.variables.get(name).cloned());
        }
        let inner =
            source.trim_matches('"').strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        if let Some(inner) = inner {
            self.text(inner)?;
        } else if source.contains("$(") || source.contains('`') {
            return Err(Unparsed);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(script: &str) -> String {
        let Ok(found) = commands(script) else { return "unparsed".to_owned() };
        let word = |word: &Arg| word.clone().unwrap_or_else(|| "?".to_owned());
        let lines = found.iter().map(|simple| {
            let mut words: Vec<_> = simple.words.iter().map(word).collect();
            words.extend(simple.writes.iter().map(|file| format!(">{}", word(file))));
            words.join(" ")
        });
        lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn commands_are_found_wherever_they_hide() {
        for (script, expected) in [
            ("cargo test --offline", "cargo test --offline"),
            ("a; b && c || d & e | f", "a | b | c | d | e | f"),
            ("(cd x && rm -rf y)", "cd x | rm -rf y"),
            ("if a; then b; elif c; then d; else e; fi", "a | b | c | d | e"),
            ("for x in $(ls); do rm \"$x\"; done", "ls | rm ?"),
            ("while read l; do a; done < <(b c)", "read l | a | b c"),
            ("case $x in a) b;; *) c;; esac", "b | c"),
            ("f() { rm -rf x; }; f", "rm -rf x | f"),
            ("echo $(rm -rf x) `rm y`", "rm -rf x | rm y | echo ? ?"),
            ("echo \"a $(b \"$(c)\") d\"", "c | b ? | echo ?"),
            ("echo ${x:-$(rm -rf y)}", "rm -rf y | echo ?"),
            ("echo $(( $(rm x) + 1 ))", "rm x | echo ?"),
            ("A=1 B=$(c) d e", "c | d e"),
            ("X=rm; $X -rf y", "rm -rf y"),
            ("r\\m -r'f' \"x\"", "rm -rf x"),
            ("cat > a.txt <<END\n$(rm x)\nEND", "rm x | cat >a.txt"),
            ("cat <<'END'\n$(rm x)\nEND", "cat"),
            ("a > b 2>&1 &> c", "a >b >c"),
            ("diff <(a) <(b)", "a | b | diff ? ?"),
            ("[[ $(a) = b ]] && c", "a | c"),
            ("{ a; b; } > out", "a | b | >out"),
            ("time a; ! b", "a | b"),
            ("", ""),
            ("echo 'unclosed", "unparsed"),
            ("if a; then", "unparsed"),
        ] {
            assert_eq!(shown(script), expected, "{script}");
        }
    }
}
