use std::collections::BTreeMap;

use holdfast_core::model::{
    Budget, BudgetKey, BuiltinBudget, GroupApi, GroupKind, ObjectKey, Owner, Pod, PodGroup,
    ResourceVersion, Workload,
};
use holdfast_core::{Change, Input, Kind};

/// What the API server stores. One counter gives out uids and resource versions, as etcd's revision
/// does, so versions compare across kinds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Truth {
    pub pods: BTreeMap<ObjectKey, Pod>,
    pub budgets: BTreeMap<BudgetKey, Budget>,
    pub builtin_budgets: BTreeMap<ObjectKey, BuiltinBudget>,
    pub pod_groups: BTreeMap<(GroupApi, ObjectKey), PodGroup>,
    pub workloads: BTreeMap<(GroupApi, ObjectKey), Workload>,
    pub owners: BTreeMap<(GroupKind, ObjectKey), Owner>,
    counter: u64,
}

impl Truth {
    /// Stores nothing yet, and has given out this version last.
    pub fn at(counter: u64) -> Self {
        Self { counter, ..Self::default() }
    }

    /// Create or replace. The uid belongs to the stored object: a replacement keeps it.
    pub fn put<T: Resource>(&mut self, mut object: T) -> T {
        let version = self.next_version();
        let key = object.key();
        let uid = match T::table(self).get(&key) {
            Some(stored) => stored.uid().to_owned(),
            None => format!("uid-{version}"),
        };
        object.stamp(uid, version);
        T::table(self).insert(key, object.clone());
        object
    }

    /// The last state carries the version of the deletion, as in a real watch.
    pub fn remove<T: Resource>(&mut self, key: &T::Key) -> Option<T> {
        let mut last = T::table(self).remove(key)?;
        let uid = last.uid().to_owned();
        last.stamp(uid, self.next_version());
        Some(last)
    }

    /// Every stored object of the kind, as a list would hold it.
    pub fn list(&self, kind: &Kind) -> Vec<Input> {
        match kind {
            Kind::Pod => list_of(kind, &self.pods),
            Kind::Budget | Kind::UnavailableBudget => list_of(kind, &self.budgets),
            Kind::BuiltinBudget => list_of(kind, &self.builtin_budgets),
            Kind::PodGroup(_) => list_of(kind, &self.pod_groups),
            Kind::Workload(_) => list_of(kind, &self.workloads),
            Kind::Owner(_) => list_of(kind, &self.owners),
        }
    }

    /// The newest version that was given out.
    pub fn version(&self) -> ResourceVersion {
        self.counter.into()
    }

    pub fn counter(&self) -> u64 {
        self.counter
    }

    fn next_version(&mut self) -> ResourceVersion {
        self.counter += 1;
        self.counter.into()
    }
}

fn list_of<T: Resource>(kind: &Kind, table: &BTreeMap<T::Key, T>) -> Vec<Input> {
    let of_kind = table.values().filter(|object| object.kind() == *kind);
    of_kind.map(|object| T::input(Change::Applied(object.clone()))).collect()
}

/// A kind of object that the world stores.
pub(crate) trait Resource: Clone {
    type Key: Ord + Clone;

    fn key(&self) -> Self::Key;
    fn uid(&self) -> &str;
    fn stamp(&mut self, uid: String, version: ResourceVersion);
    fn kind(&self) -> Kind;
    fn table(truth: &mut Truth) -> &mut BTreeMap<Self::Key, Self>;
    fn input(change: Change<Self>) -> Input;
}

macro_rules! resource {
    ($type:ident in $table:ident by $key:ty, key: $key_of:expr, kind: $kind_of:expr) => {
        impl Resource for $type {
            type Key = $key;

            fn key(&self) -> Self::Key {
                let key_of: fn(&Self) -> Self::Key = $key_of;
                key_of(self)
            }

            fn uid(&self) -> &str {
                &self.uid
            }

            fn stamp(&mut self, uid: String, version: ResourceVersion) {
                self.uid = uid;
                self.version = version;
            }

            fn kind(&self) -> Kind {
                let kind_of: fn(&Self) -> Kind = $kind_of;
                kind_of(self)
            }

            fn table(truth: &mut Truth) -> &mut BTreeMap<Self::Key, Self> {
                &mut truth.$table
            }

            fn input(change: Change<Self>) -> Input {
                Input::$type(change)
            }
        }
    };
}

resource!(Pod in pods by ObjectKey, key: |pod| pod.key.clone(), kind: |_| Kind::Pod);
resource!(Budget in budgets by BudgetKey, key: |budget| budget.key.clone(),
    kind: |budget| budget.key.kind.watched());
resource!(PodGroup in pod_groups by (GroupApi, ObjectKey),
    key: |group| (group.api, group.key.clone()), kind: |group| Kind::PodGroup(group.api));
resource!(Workload in workloads by (GroupApi, ObjectKey),
    key: |workload| (workload.api, workload.key.clone()),
    kind: |workload| Kind::Workload(workload.api));
resource!(Owner in owners by (GroupKind, ObjectKey),
    key: |owner| (owner.group_kind.clone(), owner.key.clone()),
    kind: |owner| Kind::Owner(owner.group_kind.clone()));

/// By hand because the engine does not read its uid.
impl Resource for BuiltinBudget {
    type Key = ObjectKey;

    fn key(&self) -> ObjectKey {
        self.key.clone()
    }

    fn uid(&self) -> &'static str {
        ""
    }

    fn stamp(&mut self, _: String, version: ResourceVersion) {
        self.version = version;
    }

    fn kind(&self) -> Kind {
        Kind::BuiltinBudget
    }

    fn table(truth: &mut Truth) -> &mut BTreeMap<ObjectKey, Self> {
        &mut truth.builtin_budgets
    }

    fn input(change: Change<Self>) -> Input {
        Input::BuiltinBudget(change)
    }
}
