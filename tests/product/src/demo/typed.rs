//! A provider that is typed at the terminal where the environment names none: asked for once, shown to nobody and kept
//! for this run alone.

use std::io::{BufRead, IsTerminal as _, Write as _};

use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};

use super::found::{FoundProvider, SecretKey};

/// Words that stand for the variable's name in messages about a typed key.
const TYPED: &str = "what you typed";
const QUESTION: &str = "Which models shall work on it? Type a key of OpenRouter, OpenAI, Anthropic or Google (it is not shown, and kept for this run \
    alone), or the address of a server of yours, such as http://localhost:11434/v1. Enter alone: no model, the demo can look \
    around and no more.\n> ";
/// Character that Ctrl-C types while the terminal sends no signals.
const INTERRUPT: char = '\u{3}';
/// Answers that can't be read before the demo goes on without a model.
const TRIES: usize = 3;
/// Prefixes of the providers' keys, the longer ones first.
const KEYS: [(&str, &str); 4] = [
    ("sk-or-", "https://openrouter.ai/api/v1"),
    ("sk-ant-", "https://api.anthropic.com/v1"),
    ("AIza", "https://generativelanguage.googleapis.com/v1beta/openai"),
    ("sk-", "https://api.openai.com/v1"),
];

/// Models that are listed for somebody who has to choose one.
const LISTED: usize = 30;

/// Asks which model shall work in the place of one that `host` does not offer, where somebody sits at a terminal.
pub(super) fn ask_model(host: &str, missing: &str, offered: &[String]) -> Option<String> {
    if !is_terminal() {
        return None;
    }
    choose_model(host, missing, offered, &mut std::io::stdin().lock(), &mut say_now)
}

fn choose_model(
    host: &str,
    missing: &str,
    offered: &[String],
    input: &mut impl BufRead,
    say: &mut impl FnMut(&str),
) -> Option<String> {
    say(&format!("{host} does not offer {missing}. Which of its models shall work instead?\n"));
    for (n, model) in offered.iter().take(LISTED).enumerate() {
        say(&format!("  {}  {model}\n", n + 1));
    }
    let more = offered.len().saturating_sub(LISTED);
    if more > 0 {
        say(&format!("  and {more} more\n"));
    }
    say("Type its number or name. Enter alone ends the demo.\n> ");
    for _ in 0..TRIES {
        let mut line = String::new();
        if input.read_line(&mut line).is_err() || line.trim().is_empty() {
            return None;
        }
        let typed = line.trim();
        let by_number = typed.parse::<usize>().ok().and_then(|n| offered.get(n.checked_sub(1)?));
        if let Some(model) = by_number.or_else(|| offered.iter().find(|model| *model == typed)) {
            return Some(model.clone());
        }
        say("That is none of them: type a number or a name of the list.\n> ");
    }
    None
}

fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

fn say_now(text: &str) {
    let mut out = std::io::stdout();
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}

/// Asks, where somebody sits at a terminal.
pub(super) fn ask_provider() -> Option<FoundProvider> {
    let stdin = std::io::stdin();
    if !is_terminal() {
        return None;
    }
    // Without a way to hide the typed key, no question is asked.
    let shown = tcgetattr(&stdin).ok()?;
    let mut hidden = shown.clone();
    // Ctrl-C would end the demo with a terminal that shows nothing any more: it is a character, and no key.
    hidden.local_flags.remove(LocalFlags::ECHO | LocalFlags::ISIG);
    tcsetattr(&stdin, SetArg::TCSANOW, &hidden).ok()?;
    let found = ask_until_read(&mut stdin.lock(), &mut say_now);
    let _ = tcsetattr(&stdin, SetArg::TCSANOW, &shown);
    found
}

fn ask_until_read(input: &mut impl BufRead, say: &mut impl FnMut(&str)) -> Option<FoundProvider> {
    say(QUESTION);
    for _ in 0..TRIES {
        let mut line = String::new();
        if input.read_line(&mut line).is_err() {
            return None;
        }
        say("\n");
        if line.contains(INTERRUPT) {
            return None;
        }
        match read_answer(line.trim()) {
            Ok(found) => return found,
            Err(why) => say(&format!("{why}\n> ")),
        }
    }
    None
}

/// Reads the typed answer; `None` if it is empty. The error says what to type.
fn read_answer(text: &str) -> Result<Option<FoundProvider>, &'static str> {
    let found = |url: String, key: &str| {
        let key = SecretKey(Some(key.to_owned()));
        Ok(Some(FoundProvider { url, key, variable: TYPED, api: None }))
    };
    if text.is_empty() {
        return Ok(None);
    }
    if text.starts_with("http://") || text.starts_with("https://") {
        let url = url::Url::parse(text)
            .map_err(|_| "That is no address: type one such as http://localhost:11434/v1.")?;
        let bare = url.path() == "/";
        let url = text.trim_end_matches('/');
        return found(if bare { format!("{url}/v1") } else { url.to_owned() }, "none");
    }
    if text.contains(char::is_whitespace) {
        return Err("A key has no spaces: type it once more, or Enter alone.");
    }
    match KEYS.iter().find(|(begins, _)| text.starts_with(begins)) {
        Some((_, url)) => found((*url).to_owned(), text),
        None => Err(
            "It can't be told whose key that is: type another one, or set CODEBUTLER_MODEL_URL and CODEBUTLER_MODEL_KEY.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(lines: &str) -> (Option<(String, String)>, String) {
        let mut said = String::new();
        let found = ask_until_read(&mut lines.as_bytes(), &mut |text| said.push_str(text));
        (found.map(|one| (one.url, one.key.0.unwrap_or_default())), said)
    }

    #[test]
    fn a_key_or_an_address_names_its_provider_and_enter_none() {
        for (line, url, key) in [
            ("sk-or-v1-x\n", "https://openrouter.ai/api/v1", "sk-or-v1-x"),
            (" sk-ant-x \n", "https://api.anthropic.com/v1", "sk-ant-x"),
            ("sk-proj-x\n", "https://api.openai.com/v1", "sk-proj-x"),
            ("http://localhost:11434\n", "http://localhost:11434/v1", "none"),
            ("http://localhost:8000/v1/\n", "http://localhost:8000/v1", "none"),
        ] {
            let (found, said) = typed(line);
            assert_eq!(found, Some((url.to_owned(), key.to_owned())), "{line}");
            assert!(key == "none" || !said.contains(key), "a key is not shown: {said}");
        }
        assert_eq!(typed("\n").0, None);
        assert_eq!(typed("").0, None);
    }

    #[test]
    fn a_model_is_chosen_by_number_or_name_and_not_for_ever() {
        let offered = ["small".to_owned(), "large".to_owned()];
        let chosen = |lines: &str| {
            let mut said = String::new();
            let mut say = |text: &str| said.push_str(text);
            let mut input = lines.as_bytes();
            (choose_model("llm.acme.dev", "huge", &offered, &mut input, &mut say), said)
        };
        let (model, said) = chosen("2\n");
        assert_eq!(model.as_deref(), Some("large"));
        assert!(
            said.contains("llm.acme.dev does not offer huge") && said.contains("2  large"),
            "{said}"
        );
        assert_eq!(chosen("small\n").0.as_deref(), Some("small"));
        let (model, said) = chosen("0\nlarger\n1\n");
        assert_eq!(model.as_deref(), Some("small"));
        assert!(said.contains("none of them"), "{said}");
        assert_eq!(chosen("\n").0, None);
        assert_eq!(chosen("x\ny\nz\n1\n").0, None);
    }

    #[test]
    fn what_is_neither_is_asked_for_again_and_not_for_ever() {
        let (found, said) = typed("hunter2\nsk-x\n");
        assert_eq!(found.unwrap().1, "sk-x");
        assert!(said.contains("whose key that is") && !said.contains("hunter2"), "{said}");
        assert_eq!(typed("a\nb\nc\nsk-x\n").0, None);
        assert!(typed("my key\n\n").1.contains("no spaces"));
    }
}
