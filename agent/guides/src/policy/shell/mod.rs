//! Parses a shell script into what it would run, as far as that can be known without running it: every simple command
//! in it, wherever it hides, with its words. Pure.

use std::collections::{HashMap, HashSet};
use std::io::Cursor;

use brush_parser::ast::{
    self, AndOr, Command, CommandPrefixOrSuffixItem as Item, CompoundCommand, CompoundList,
    IoFileRedirectKind as Kind, IoFileRedirectTarget, IoRedirect, SimpleCommand, Word,
};
use brush_parser::word::{Parameter, ParameterExpr, WordPiece, WordPieceWithSource};
use brush_parser::{Parser, ParserOptions, word};

mod known;
mod listing;
mod plain;
mod printed;

pub use known::{HOLE, is_socket};
use known::{is_hole, known_word, unescape_text};
pub use listing::{finds_repository, is_root};
pub use plain::PlainCommand;
pub use printed::printed_text;

/// A word: its text, or nothing where that is only known when it runs.
pub type ShellWord = Option<String>;

/// No shell would take it, or this parser does not.
#[derive(Debug, PartialEq, Eq)]
pub struct UnparsedShell;

/// Scripts in scripts in scripts.
const DEEPEST: usize = 12;
/// Brackets and blocks in each other: the parser takes a piece of the stack for each.
const NESTED: usize = 100;
/// Values of a loop that are tried one by one.
const VALUES: usize = 16;
const MOST: usize = 4096;

/// All simple commands of a script.
pub fn parse_commands(script: &str) -> Result<Vec<PlainCommand>, UnparsedShell> {
    let mut walk = ScriptWalk::default();
    walk.script(script)?;
    Ok(walk.found)
}

#[derive(Default)]
struct ScriptWalk {
    found: Vec<PlainCommand>,
    /// Literal assignments so far.
    variables: HashMap<String, String>,
    /// Functions of the script that may run what they are given.
    runners: HashSet<String>,
    /// Variables that hold a list of all files.
    listings: HashSet<String>,
    /// True if the command that is being read has such a list in its words.
    lists: bool,
    depth: usize,
}

type ReadCommand = Result<(), UnparsedShell>;

fn first_is_in(simple: &PlainCommand, names: &HashSet<String>) -> bool {
    simple.words.first().and_then(Option::as_ref).is_some_and(|name| names.contains(name))
}

impl ScriptWalk {
    fn script(&mut self, script: &str) -> ReadCommand {
        self.depth += 1;
        if self.depth > DEEPEST || known::nesting_depth(script) > NESTED {
            return Err(UnparsedShell);
        }
        let mut parser = Parser::new(Cursor::new(script.as_bytes()), &ParserOptions::default());
        let program = parser.parse_program().map_err(|_| UnparsedShell)?;
        for list in &program.complete_commands {
            self.list(list)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn list(&mut self, list: &CompoundList) -> ReadCommand {
        for ast::CompoundListItem(and_or, _) in &list.0 {
            self.pipeline(&and_or.first)?;
            for next in &and_or.additional {
                let (AndOr::And(pipeline) | AndOr::Or(pipeline)) = next;
                self.pipeline(pipeline)?;
            }
        }
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &ast::Pipeline) -> ReadCommand {
        let start = self.found.len();
        for (place, command) in pipeline.seq.iter().enumerate() {
            let before = self.found.len();
            // Only what comes from one command that says something known is known.
            let fed = match &self.found[start..] {
                [.., last] if place > 0 => printed_text(last),
                _ => None,
            };
            let before_it = &self.found[start..];
            let lists = place > 0 && before_it.last().is_some_and(PlainCommand::prints_all);
            let from: Vec<_> = before_it.iter().flat_map(PlainCommand::sources).collect();
            self.command(command)?;
            if place > 0 {
                // A loop that reads from a pipe feeds what is in it.
                for found in &mut self.found[before..] {
                    found.piped = true;
                    found.lists |= lists;
                    found.fed = found.fed.take().or_else(|| fed.clone());
                    found.from.extend(from.iter().cloned());
                }
            }
        }
        Ok(())
    }

    fn command(&mut self, command: &Command) -> ReadCommand {
        match command {
            Command::Simple(simple) => self.simple(simple),
            Command::Compound(compound, redirects) => {
                let before = self.found.len();
                self.compound(compound)?;
                let outer = std::mem::take(&mut self.lists);
                self.redirects(redirects.as_ref())?;
                // A loop reads what it is redirected from.
                if std::mem::replace(&mut self.lists, outer) {
                    self.found[before..].iter_mut().for_each(|found| found.lists = true);
                }
                Ok(())
            }
            Command::Function(function) => {
                let ast::FunctionBody(body, redirects) = &function.body;
                let before = self.found.len();
                self.compound(body)?;
                if self.found[before..].iter().any(PlainCommand::runs_unknown) {
                    self.runners.insert(function.fname.to_string());
                }
                self.redirects(redirects.as_ref())
            }
            Command::ExtendedTest(test, redirects) => {
                self.test(&test.expr)?;
                self.redirects(redirects.as_ref())
            }
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) -> ReadCommand {
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
                let mut values = Vec::new();
                let outer = std::mem::take(&mut self.lists);
                for value in clause.values.iter().flatten() {
                    values.push(known_word(&self.word(value)?));
                }
                let lists = std::mem::replace(&mut self.lists, outer);
                self.keep_listing(&clause.variable_name, lists);
                let all: Option<Vec<String>> = values.into_iter().collect();
                match all {
                    Some(values) if !values.is_empty() && values.len() <= VALUES => {
                        for value in values {
                            self.variables.insert(clause.variable_name.clone(), value);
                            self.list(&clause.body.list)?;
                        }
                        self.variables.remove(&clause.variable_name);
                        Ok(())
                    }
                    _ => {
                        self.variables.remove(&clause.variable_name);
                        self.list(&clause.body.list)
                    }
                }
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
            CompoundCommand::Coprocess(process) => self.command(&process.body),
        }
    }

    fn test(&mut self, test: &ast::ExtendedTestExpr) -> ReadCommand {
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

    fn simple(&mut self, simple: &SimpleCommand) -> ReadCommand {
        let mut out = PlainCommand::default();
        let (before, outer) = (self.found.len(), std::mem::take(&mut self.lists));
        let named = simple.word_or_name.is_some();
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            self.item(item, &mut out, !named)?;
        }
        if let Some(name) = &simple.word_or_name {
            let name = self.word(name)?;
            out.push(name);
        }
        let first = out.words.first().and_then(Option::as_deref);
        let declares =
            first.is_some_and(|name| matches!(name, "export" | "declare" | "local" | "readonly"));
        let aliases = first == Some("alias");
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut out, declares)?;
        }
        if aliases {
            for alias in out.words.iter().flatten().filter_map(|word| word.split_once('=')) {
                self.script(alias.1)?;
            }
        }
        out.lists = std::mem::replace(&mut self.lists, outer);
        let within = self.found[before..].iter();
        out.within = within.filter_map(PlainCommand::program).map(str::to_owned).collect();
        let given =
            first_is_in(&out, &self.runners).then(|| out.with_words(out.words[1..].to_vec()));
        self.found.push(out);
        self.found.extend(given.filter(|given| !given.words.is_empty()));
        if self.found.len() > MOST { Err(UnparsedShell) } else { Ok(()) }
    }

    fn item(&mut self, item: &Item, out: &mut PlainCommand, keeps: bool) -> ReadCommand {
        match item {
            Item::IoRedirect(redirect) => self.redirect(redirect, out),
            Item::Word(word) => {
                let word = self.word(word)?;
                out.push(word);
                Ok(())
            }
            Item::AssignmentWord(assignment, word) => {
                let outer = std::mem::take(&mut self.lists);
                let value = match &assignment.value {
                    ast::AssignmentValue::Scalar(value) => self.word(value)?,
                    ast::AssignmentValue::Array(values) => {
                        let mut all = Vec::new();
                        for (_, value) in values {
                            all.push(self.word(value)?);
                        }
                        all.join(" ")
                    }
                };
                let value = known_word(&value);
                let lists = std::mem::replace(&mut self.lists, outer);
                if let ast::AssignmentName::VariableName(name) = &assignment.name {
                    self.keep_listing(name, lists);
                    out.sets.push((name.clone(), value.clone()));
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
                    out.push(whole);
                }
                Ok(())
            }
            Item::ProcessSubstitution(_, shell) => {
                out.push(HOLE.to_string());
                let before = self.found.len();
                self.list(&shell.list)?;
                self.note_listing(before);
                if let [one] = &self.found[before..] {
                    out.fed = printed_text(one);
                }
                Ok(())
            }
        }
    }

    fn redirects(&mut self, redirects: Option<&ast::RedirectList>) -> ReadCommand {
        let mut out = PlainCommand::default();
        for redirect in redirects.iter().flat_map(|list| &list.0) {
            self.redirect(redirect, &mut out)?;
        }
        if !out.writes.is_empty() {
            self.found.push(out);
        }
        Ok(())
    }

    fn redirect(&mut self, redirect: &IoRedirect, out: &mut PlainCommand) -> ReadCommand {
        match redirect {
            IoRedirect::File(_, kind, target) => {
                let reads = matches!(kind, Kind::Read | Kind::DuplicateInput);
                match target {
                    IoFileRedirectTarget::Filename(file) => {
                        let file = known_word(&self.word(file)?);
                        if reads {
                            out.reads.push(file);
                        } else {
                            if !matches!(kind, Kind::Append | Kind::ReadAndWrite) {
                                out.replaces.push(file.clone());
                            }
                            out.writes.push(file);
                        }
                        Ok(())
                    }
                    IoFileRedirectTarget::ProcessSubstitution(_, shell) => {
                        out.reads.extend(reads.then_some(None));
                        let before = self.found.len();
                        self.list(&shell.list)?;
                        self.note_listing(before);
                        Ok(())
                    }
                    IoFileRedirectTarget::Duplicate(word) => {
                        out.reads.extend(reads.then_some(None));
                        self.word(word).map(drop)
                    }
                    IoFileRedirectTarget::Fd(_) => {
                        out.reads.extend(reads.then_some(None));
                        Ok(())
                    }
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
                if is_hole(&text) {
                    out.reads.push(None);
                } else {
                    out.input = Some(known_word(&text).unwrap_or_else(|| word.value.clone()));
                }
                Ok(())
            }
            IoRedirect::OutputAndError(file, appends) => {
                let file = known_word(&self.word(file)?);
                out.replaces.extend((!appends).then(|| file.clone()));
                out.writes.push(file);
                Ok(())
            }
        }
    }

    /// The word's text, with [`HOLE`] for what is not certain; the commands inside it are found either
    /// way.
    fn word(&mut self, word: &Word) -> Result<String, UnparsedShell> {
        let pieces =
            word::parse(&word.value, &ParserOptions::default()).map_err(|_| UnparsedShell)?;
        self.pieces(&word.value, &pieces)
    }

    /// Looks for commands in text that expands like a word.
    fn text(&mut self, text: &str) -> ReadCommand {
        if text.contains("$(") || text.contains('`') || text.contains("${") {
            let pieces =
                word::parse_heredoc(text, &ParserOptions::default()).map_err(|_| UnparsedShell)?;
            self.pieces(text, &pieces)?;
        }
        Ok(())
    }

    fn pieces(
        &mut self,
        source: &str,
        pieces: &[WordPieceWithSource],
    ) -> Result<String, UnparsedShell> {
        let mut out = String::new();
        for piece in pieces {
            let unknown = || HOLE.to_string();
            let text = match &piece.piece {
                WordPiece::Text(text) | WordPiece::SingleQuotedText(text) => text.clone(),
                WordPiece::EscapeSequence(text) => {
                    text.strip_prefix('\\').unwrap_or(text).to_owned()
                }
                WordPiece::AnsiCQuotedText(text) => unescape_text(text).unwrap_or_else(unknown),
                WordPiece::DoubleQuotedSequence(inner)
                | WordPiece::GettextDoubleQuotedSequence(inner) => self.pieces(source, inner)?,
                WordPiece::TildeExpansion(_) => "~".to_owned(),
                WordPiece::ParameterExpansion(parameter) => {
                    let end = source
                        .char_indices()
                        .nth(piece.end_index)
                        .map_or(source.len(), |(at, _)| at);
                    let start =
                        source.char_indices().nth(piece.start_index).map_or(end, |(at, _)| at);
                    self.parameter(parameter, source.get(start..end).unwrap_or(source))?
                        .unwrap_or_else(unknown)
                }
                WordPiece::CommandSubstitution(script) => self.output(script)?,
                WordPiece::BackquotedCommandSubstitution(script) => {
                    self.output(&script.replace("\\`", "`"))?
                }
                WordPiece::ArithmeticExpression(arithmetic) => {
                    self.text(&arithmetic.value)?;
                    unknown()
                }
            };
            out.push_str(&text);
        }
        Ok(out)
    }

    /// Sets `lists` if the last command found since `before` puts out a list of all files.
    fn note_listing(&mut self, before: usize) {
        self.lists |= self.found[before..].last().is_some_and(PlainCommand::prints_all);
    }

    fn keep_listing(&mut self, variable: &str, lists: bool) {
        if lists {
            self.listings.insert(variable.to_owned());
        } else {
            self.listings.remove(variable);
        }
    }

    /// Returns the output of a script, if that is known before it runs.
    fn output(&mut self, script: &str) -> Result<String, UnparsedShell> {
        let before = self.found.len();
        self.script(script)?;
        self.note_listing(before);
        let said = match &self.found[before..] {
            [one] => printed_text(one),
            _ => None,
        };
        Ok(said.map_or_else(|| HOLE.to_string(), |text| text.trim_end_matches('\n').to_owned()))
    }

    /// `$x`, if `x` was set to something certain before; commands inside `${…}` are found.
    fn parameter(
        &mut self,
        parameter: &ParameterExpr,
        source: &str,
    ) -> Result<ShellWord, UnparsedShell> {
        if let ParameterExpr::Parameter {
            parameter: Parameter::Named(name) | Parameter::NamedWithAllIndices { name, .. },
            indirect: false,
        } = parameter
        {
            let place = match name.as_str() {
                "PWD" => Some(".".to_owned()),
                "HOME" => Some("~".to_owned()),
                _ => None,
            };
            self.lists |= self.listings.contains(name);
            return Ok(self.variables.get(name).cloned().or(place));
        }
        let inner =
            source.trim_matches('"').strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        if let Some(inner) = inner {
            self.text(inner)?;
        } else if source.contains("$(") || source.contains('`') {
            return Err(UnparsedShell);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
