//! Words with which a form asks for a secret: in a name, or in a sentence. Pure.

/// Words of which a name may hold no part, without spaces.
const NAMES: [&str; 20] = [
    "password",
    "passphrase",
    "passwd",
    "passcode",
    "passwort",
    "kennwort",
    "motdepasse",
    "contraseña",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "credential",
    "privatekey",
    "cvv",
    "onetimecode",
    "verificationcode",
    "recoverycode",
    "seedphrase",
    "пароль",
];
/// More of them, that are parts of harmless words too.
const WORDS: [&str; 8] = ["otp", "totp", "cvc", "pwd", "pincode", "2fa", "mfa", "senha"];
/// Words of a sentence that can be one of these.
const JOINED: usize = 3;

/// True for the name of something secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let plain: String = name.chars().filter(|letter| letter.is_alphanumeric()).collect();
    let plain = plain.to_lowercase();
    NAMES.iter().any(|secret| plain.contains(secret)) || asks_for_secret(name)
}

/// True for a sentence that speaks of something secret. Whole words count: a "secretary" is none.
pub(super) fn asks_for_secret(text: &str) -> bool {
    let text = codebutler_mcp::clean_text(text).to_lowercase();
    let words: Vec<&str> = text
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let is_secret = |word: &str| {
        let of = |list: &[&str]| list.contains(&word) || list.contains(&word.trim_end_matches('s'));
        of(&NAMES) || of(&WORDS)
    };
    (1..=JOINED).any(|count| words.windows(count).any(|some| is_secret(&some.concat())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_in_names_and_sentences() {
        for name in
            ["password", "userPassword", "Your API key", "github_token", "otp", "One-time code"]
        {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["city", "shipping", "size", "secre", "option"] {
            assert!(!is_secret_name(name), "{name}");
        }
        for text in [
            "Paste your GitHub token here.",
            "Which API keys do you use?",
            "your pass\u{200b}word",
            "Enter the 2FA code",
            "Bitte das Passwort eingeben",
        ] {
            assert!(asks_for_secret(text), "{text}");
        }
        for text in ["Name of the secretary", "How is it tokenized?", "Which city?", ""] {
            assert!(!asks_for_secret(text), "{text}");
        }
    }
}
