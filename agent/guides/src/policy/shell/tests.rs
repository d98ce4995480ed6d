//! Tests of the commands that are found in scripts.

use super::*;

fn shown(script: &str) -> String {
    let Ok(found) = parse_commands(script) else { return "unparsed".to_owned() };
    let word = |word: &ShellWord| word.clone().unwrap_or_else(|| "?".to_owned());
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
        // Values that are known before the script runs are put in place.
        ("A=(np publish); \"${A[@]}\"", "np publish"),
        ("export X=np; $X a", "export X=np | np a"),
        ("$(echo np) a \"$(printf pub)lish\"", "echo np | printf pub | np a publish"),
        ("$'\\x6e\\160' $'a\\q'", "np ?"),
        ("for t in a b; do x $t; done", "x a | x b"),
        ("alias n='np a'; n", "np a | alias n=np a | n"),
        ("x http://a:$P/", "x ?"),
        ("", ""),
        ("echo 'unclosed", "unparsed"),
        ("if a; then", "unparsed"),
    ] {
        assert_eq!(shown(script), expected, "{script}");
    }
}

#[test]
fn what_a_pipe_brings_is_known_where_it_can_be() {
    for (script, fed, from) in [
        ("echo a b | sh", Some("a b"), vec!["echo"]),
        ("printf '%s c\\n' a | sh", Some("a c\n"), vec!["printf"]),
        ("cat <<'E' | sh\na\nE", Some("a\n"), vec!["cat"]),
        ("echo a | cat | sh", Some("a"), vec!["echo", "cat"]),
        ("echo a | tr a b | sh", None, vec!["echo", "tr"]),
        ("(curl x) | sh", None, vec!["curl"]),
    ] {
        let found = parse_commands(script).unwrap();
        let last = found.last().unwrap();
        assert!(last.piped, "{script}");
        assert_eq!(
            (last.fed.as_deref(), last.from.clone()),
            (fed, from.into_iter().map(str::to_owned).collect()),
            "{script}"
        );
    }
}
