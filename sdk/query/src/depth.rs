//! Limits how deeply expressions are nested.
//!
//! The engine takes time with the square of the depth, and recurses without a limit. `a OR b OR c` has a depth of 3.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Visit, Visitor};

/// The maximum depth.
pub(crate) const MAX_DEPTH: usize = 1000;

/// Returns true if a statement is nested too deeply.
pub(crate) fn is_too_deep(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => statement.visit(&mut Depth(0)).is_break(),
        Statement::Explain(explain) => is_too_deep(&explain.statement),
        // These change something, so they are refused.
        _ => false,
    }
}

/// The depth of the expression that is being visited.
struct Depth(usize);

impl Visitor for Depth {
    type Break = ();

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.0 += 1;
        match self.0 > MAX_DEPTH {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.0 -= 1;
        ControlFlow::Continue(())
    }
}
