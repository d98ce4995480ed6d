//! Which words are a decision, in English and Spanish: a whole message or nothing. Pure.

/// What a whole message can mean. A message that says anything more is not a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Yes, to a plan or an action.
    Approve,
    /// Yes, to an action and to the same words of it for the rest of the thread.
    Always,
    /// Such a yes counts no more.
    Revoke,
    /// No, to an action.
    Deny,
    /// Merge.
    Merge,
    /// End the thread without merging.
    Close,
    /// End what runs now, at once.
    Stop,
}

const APPROVE: &[&str] = &[
    "approve",
    "approved",
    "i approve",
    "lgtm",
    "looks good",
    "looks good to me",
    "go",
    "go ahead",
    "go for it",
    "ship it",
    "yes",
    "yes please",
    "yep",
    "ok",
    "okay",
    "do it",
    "si",
    "sí",
    "dale",
    "adelante",
    "apruebo",
    "aprobado",
    "aprobada",
    "hazlo",
    "vale",
    "de acuerdo",
    "perfecto",
];
const ALWAYS: &[&str] = &[
    "approve for this thread",
    "approve for the thread",
    "approved for this thread",
    "approve in this thread",
    "yes for this thread",
    "yes always",
    "always",
    "always approve",
    "approve always",
    "siempre",
    "sí siempre",
    "si siempre",
    "aprobar siempre",
    "apruebo siempre",
    "aprobar para este hilo",
    "apruebo para este hilo",
];
const REVOKE: &[&str] = &[
    "revoke",
    "revoke it",
    "revoke approval",
    "revoke approvals",
    "revoke the approval",
    "revocar",
    "revoca",
    "revocar aprobación",
    "revocar aprobaciones",
];
const DENY: &[&str] = &[
    "no",
    "no thanks",
    "no thank you",
    "no way",
    "nope",
    "nah",
    "deny",
    "denied",
    "dont",
    "do not",
    "dont do it",
    "do not do it",
    "rather not",
    "i refuse",
    "refused",
    "no gracias",
    "no lo hagas",
    "mejor no",
    "para nada",
    "ni hablar",
    "denegar",
    "denegado",
    "denegada",
    "rechazar",
    "rechazado",
    "rechazada",
];
const MERGE: &[&str] = &[
    "merge",
    "merge it",
    "please merge",
    "merge please",
    "fusiona",
    "fusionar",
    "fusiónalo",
    "fusionalo",
    "mergea",
    "mergéalo",
    "mergealo",
    "haz merge",
    "haz el merge",
];
const CLOSE: &[&str] = &[
    "close",
    "close it",
    "close this",
    "close this thread",
    "close the thread",
    "close thread",
    "cierra",
    "ciérralo",
    "cierralo",
    "cierra este hilo",
    "cierra el hilo",
    "cerrar",
    "cerrar este hilo",
    "cerrar hilo",
];

const STOP: &[&str] = &[
    "stop",
    "stop it",
    "stop now",
    "please stop",
    "halt",
    "abort",
    "para",
    "detente",
    "basta",
    "alto",
];
const STOP_SIGNS: [&str; 5] = ["🛑", ":octagonal_sign:", "✋", ":hand:", ":raised_hand:"];

/// The decision that a text is, if it is exactly one.
pub fn intent(text: &str) -> Option<Intent> {
    if text.contains(['?', '¿']) {
        return None;
    }
    if STOP_SIGNS.contains(&text.trim()) {
        return Some(Intent::Stop);
    }
    let kept = |c: char| c.is_alphanumeric() || c.is_whitespace();
    // Punctuation and emoji around the words say nothing; anything between them says more.
    let trimmed = without_emoji(text.trim()).trim_matches(|c: char| !c.is_alphanumeric());
    let trimmed = trimmed.replace(['\'', '’'], "");
    if trimmed.len() > 40 || !trimmed.chars().all(kept) {
        return None;
    }
    let words = trimmed.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let means = |list: &[&str]| list.contains(&words.as_str());
    if means(APPROVE) {
        Some(Intent::Approve)
    } else if means(ALWAYS) {
        Some(Intent::Always)
    } else if means(REVOKE) {
        Some(Intent::Revoke)
    } else if means(DENY) {
        Some(Intent::Deny)
    } else if means(MERGE) {
        Some(Intent::Merge)
    } else if means(CLOSE) {
        Some(Intent::Close)
    } else if means(STOP) {
        Some(Intent::Stop)
    } else {
        None
    }
}

/// Without one of Slack's `:emoji:` at the end.
fn without_emoji(text: &str) -> &str {
    let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+');
    match text.strip_suffix(':').and_then(|rest| rest.rsplit_once(':')) {
        Some((before, emoji)) if !emoji.is_empty() && emoji.chars().all(name) => before.trim_end(),
        _ => text,
    }
}
