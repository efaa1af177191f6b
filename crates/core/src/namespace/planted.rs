//! Planted bugs that are more than a condition left out.

use std::sync::Arc;

use super::explain::refuse;
use super::writer::{Batch, Granted};
use super::{BudgetId, Context, Namespace};
use crate::grants::has_recorded;
use crate::io::Command;
use crate::model::Grant;
use crate::verdict::DenyReason;

impl Namespace {
    /// `BelieveLostWrite`, `NoReadAfterLoss`: nobody looks what became of the write.
    pub(super) fn take_as_known(&mut self, cx: &mut Context<'_>, id: &BudgetId) {
        let Some(entry) = self.budgets.get_mut(id) else { return };
        let batch = entry.writer.in_flight.take().unwrap_or_default();
        self.drop_uncommitted(cx, id);
        for Granted { grant, .. } in batch.granted {
            let Grant { eviction, cost, .. } = grant;
            if planted!(BelieveLostWrite) {
                self.reserved(cx, id, &eviction, cost);
            } else if let Some(request) = self.requests.get_mut(&eviction) {
                request.wrote.clear();
                self.deny(cx, &eviction, refuse(DenyReason::NotRecorded, "it was lost"));
            }
        }
        self.pump(cx, id);
    }

    /// `NoSecondThought`: after a conflict, the same grants from the newer version.
    pub(super) fn write_the_same_again(
        &mut self,
        cx: &mut Context<'_>,
        id: &BudgetId,
        batch: Batch,
    ) -> Option<Batch> {
        let unwritten = |entry: &super::BudgetEntry| {
            !batch.granted.iter().all(|granted| has_recorded(&entry.object.status, &granted.grant))
        };
        let Some(entry) =
            self.budgets.get(id).filter(|e| planted!(NoSecondThought) && unwritten(e))
        else {
            return Some(batch);
        };
        let status = Arc::new(self.status(cx.config, cx.now, entry));
        let (uid, version) = (entry.object.uid.clone(), entry.object.version.clone());
        if let Some(entry) = self.budgets.get_mut(id) {
            entry.writer.in_flight = Some(batch);
        }
        cx.send(Command::WriteStatus { budget: (**id).clone(), uid, version, status });
        None
    }
}
