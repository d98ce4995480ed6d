//! Rebuilds when a seed is added or removed (changes inside known files are noticed anyway).

fn main() {
    println!("cargo:rerun-if-changed=../seeds");
}
