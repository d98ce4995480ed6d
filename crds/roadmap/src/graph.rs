//! The graph of dependencies among items.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::item::{RoadmapFault, RoadmapItem};

/// Finds dependencies that can't be met: on nothing that is there, and on each other.
pub(crate) fn check_graph(items: &mut [RoadmapItem], faults: &mut Vec<RoadmapFault>) {
    let ids: HashSet<String> = items.iter().map(|item| item.id.clone()).collect();
    for item in items.iter_mut() {
        let unknown: Vec<_> =
            item.depends_on.iter().filter(|id| !ids.contains(*id)).cloned().collect();
        for id in unknown {
            item.is_sound = false;
            let message = format!("item {} depends on {id}, which is not in the file", item.id);
            faults.push(RoadmapFault { line: item.line, message });
        }
    }
    for circle in find_circles(items) {
        let names: Vec<_> = circle.iter().map(|at| items[*at].id.clone()).collect();
        let message = match names.as_slice() {
            [one] => format!("item {one} depends on itself"),
            _ => format!(
                "items {} → {} wait for each other in a circle: take one dependency out",
                names.join(" → "),
                names[0]
            ),
        };
        let line = circle.iter().map(|at| items[*at].line).min().unwrap_or(1);
        faults.push(RoadmapFault { line, message });
        for at in circle {
            items[at].is_sound = false;
        }
    }
}

/// The places of items by id; of twins the first.
fn item_places(items: &[RoadmapItem]) -> HashMap<&str, usize> {
    let mut places = HashMap::new();
    for (at, item) in items.iter().enumerate() {
        places.entry(item.id.as_str()).or_insert(at);
    }
    places
}

/// Kahn's algorithm, with the file's order among equals as far as it is cheap.
pub(crate) fn sort_items(items: &[RoadmapItem]) -> Vec<usize> {
    let places = item_places(items);
    let mut waits = vec![0_usize; items.len()];
    let mut frees: Vec<Vec<usize>> = vec![Vec::new(); items.len()];
    for (at, item) in items.iter().enumerate() {
        for before in item.depends_on.iter().filter_map(|id| places.get(id.as_str())) {
            waits[at] += 1;
            frees[*before].push(at);
        }
    }
    let mut free: VecDeque<usize> = (0..items.len()).filter(|at| waits[*at] == 0).collect();
    let mut order = Vec::with_capacity(items.len());
    while let Some(at) = free.pop_front() {
        order.push(at);
        for next in &frees[at] {
            waits[*next] -= 1;
            if waits[*next] == 0 {
                free.push_back(*next);
            }
        }
    }
    order
}

/// Circles, one for each set of items that can't be ordered, by where they begin in the file.
fn find_circles(items: &[RoadmapItem]) -> Vec<Vec<usize>> {
    let places = item_places(items);
    let ordered: HashSet<usize> = sort_items(items).into_iter().collect();
    let mut seen = ordered.clone();
    let mut found = Vec::new();
    for start in 0..items.len() {
        let mut path = Vec::new();
        let mut next = Some(start);
        // Each of the items that can't be ordered waits for another one of them: following that finds a cycle.
        while let Some(at) = next.filter(|at| seen.insert(*at)) {
            path.push(at);
            let blocked = |id: &String| places.get(id.as_str()).filter(|at| !ordered.contains(*at));
            next = items[at].depends_on.iter().find_map(blocked).copied();
        }
        if let Some(from) = path.iter().position(|known| Some(*known) == next) {
            let mut circle = path.split_off(from);
            let first = circle.iter().enumerate().min_by_key(|(_, at)| **at).map_or(0, |(n, _)| n);
            circle.rotate_left(first);
            found.push(circle);
        }
    }
    found
}
