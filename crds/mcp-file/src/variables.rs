//! `${VAR}` in values: also `${env:VAR}`, and `${VAR:-default}`, as other clients write them.

/// A variable without a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the variable `{0}` has no value")]
pub struct MissingVariable(pub String);

struct VariableUse<'a> {
    name: &'a str,
    default: Option<&'a str>,
    whole: std::ops::Range<usize>,
}

/// Names of the variables in a value, in its order, each once.
pub fn list_variables(value: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for found in find_uses(value) {
        if !names.iter().any(|name| name == found.name) {
            names.push(found.name.to_owned());
        }
    }
    names
}

/// Puts values in. They are not expanded again.
pub fn expand_variables(
    value: &str,
    look_up: impl Fn(&str) -> Option<String>,
) -> Result<String, MissingVariable> {
    let (mut expanded, mut kept) = (String::new(), 0);
    for found in find_uses(value) {
        let new = look_up(found.name).or_else(|| found.default.map(str::to_owned));
        expanded.push_str(&value[kept..found.whole.start]);
        expanded.push_str(&new.ok_or_else(|| MissingVariable(found.name.to_owned()))?);
        kept = found.whole.end;
    }
    expanded.push_str(&value[kept..]);
    Ok(expanded)
}

fn find_uses(value: &str) -> Vec<VariableUse<'_>> {
    let (mut uses, mut from) = (Vec::new(), 0);
    while let Some(start) = value[from..].find("${").map(|at| from + at) {
        let Some(end) = value[start..].find('}').map(|at| start + at) else { break };
        let inner = &value[start + 2..end];
        let inner = inner.strip_prefix("env:").unwrap_or(inner);
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        from = start + 2;
        if is_name(name) {
            from = end + 1;
            uses.push(VariableUse { name, default, whole: start..end + 1 });
        }
    }
    uses
}

fn is_name(name: &str) -> bool {
    let is_start = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(is_start)
        && name.bytes().all(|byte| is_start(byte) || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_put_in_once() {
        let look_up = |name: &str| match name {
            "A" => Some("${B}".to_owned()),
            "B" => Some("b".to_owned()),
            _ => None,
        };
        for (value, expected) in [
            ("plain $A {A}", Ok("plain $A {A}")),
            ("x${A}y${env:B}", Ok("x${B}yb")),
            ("${C:-d:-e}", Ok("d:-e")),
            ("${C}", Err("the variable `C` has no value")),
            ("${B", Ok("${B")),
            ("${1x} ${a b} ${}", Ok("${1x} ${a b} ${}")),
            ("${x ${B}}", Ok("${x b}")),
            ("é${B}é", Ok("ébé")),
        ] {
            let read = expand_variables(value, look_up).map_err(|error| error.to_string());
            assert_eq!(read.as_deref().map_err(|error| &**error), expected, "{value}");
        }
        assert_eq!(list_variables("${A}${B:-x}${A}${env:C}"), ["A", "B", "C"]);
    }
}
