//! The program behind `cargo demo`: a conversation on the stack, or a measure of the team.

use std::path::Path;

use crate::bench;
use crate::demo::{self, DemoArgs, DemoEnd, PrintFn};

/// Does what the arguments ask for, with `program` as every process of the product.
///
/// # Errors
/// A mistake in a scenario or a task, or a part of the testbed that does not start.
pub async fn run_program(
    args: &DemoArgs,
    program: &Path,
    print: PrintFn<'_>,
) -> anyhow::Result<DemoEnd> {
    if args.bench.tasks_folder().is_none() {
        return Box::pin(demo::run_demo(args, program, print)).await;
    }
    let measured = bench::run_bench(args, program, print).await?;
    Ok(measured.map_or(DemoEnd::Interrupted, DemoEnd::Measured))
}
