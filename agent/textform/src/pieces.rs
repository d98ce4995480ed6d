//! Alignment of a new text's lines with those of the old one.

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Most lines, old times new, that are compared one with each other.
const COMPARED: usize = 4_000_000;

/// For each new piece the old one that it is or replaces; None for one that is added.
pub fn align_pieces(old: &[String], new: &[String]) -> Vec<Option<usize>> {
    let most = old.len().min(new.len());
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let tail = tail.min(most - head);
    let (old_mid, new_mid) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut from: Vec<Option<usize>> = (0..head).map(Some).collect();
    from.extend(align_middle(old_mid, new_mid).into_iter().map(|at| at.map(|at| head + at)));
    from.extend((old.len() - tail..old.len()).map(Some));
    from
}

fn align_middle(old: &[String], new: &[String]) -> Vec<Option<usize>> {
    let by_place = |old: usize, new: usize, len: usize, most: usize| {
        (0..len).map(move |n| (new + n, (n < most).then_some(old + n)))
    };
    if old.len().saturating_mul(new.len()) > COMPARED {
        return by_place(0, 0, new.len(), old.len()).map(|(_, from)| from).collect();
    }
    let mut from = vec![None; new.len()];
    for op in capture_diff_slices(Algorithm::Myers, old, new) {
        let (old_index, new_index, len, most) = match op {
            DiffOp::Equal { old_index, new_index, len } => (old_index, new_index, len, len),
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                (old_index, new_index, new_len, old_len)
            }
            DiffOp::Delete { .. } | DiffOp::Insert { .. } => continue,
        };
        for (at, source) in by_place(old_index, new_index, len, most) {
            from[at] = source;
        }
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aligned(old: &str, new: &str) -> Vec<Option<usize>> {
        let pieces = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        align_pieces(&pieces(old), &pieces(new))
    }

    #[test]
    fn a_piece_is_what_it_was_or_replaces() {
        assert_eq!(aligned("a b c", "a x c"), [Some(0), Some(1), Some(2)]);
        assert_eq!(aligned("a b c", "a b x c"), [Some(0), Some(1), None, Some(2)]);
        assert_eq!(aligned("a b c d", "b y d z"), [Some(1), Some(2), Some(3), None]);
        assert_eq!(aligned("a", "x y"), [Some(0), None]);
        assert_eq!(aligned("a a", "a"), [Some(0)]);
        assert_eq!(aligned("", "a"), [Some(0)]);
    }

    #[test]
    fn long_texts_are_aligned_by_place() {
        let pieces = |text: &str| vec![text.to_owned(); 3000];
        assert_eq!(align_pieces(&pieces("a"), &pieces("b"))[2999], Some(2999));
    }
}
