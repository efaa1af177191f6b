use holdfast_core::model::{BudgetKey, BudgetKind, ObjectKey};

/// The namespace of a name that does not say its own.
pub const NAMESPACE: &str = "default";

/// How a caller names an object: `"p0"`, `"other-namespace/p0"`, or a key that it was given.
pub trait Name {
    fn object_key(self) -> ObjectKey;

    fn budget_key(self) -> BudgetKey
    where
        Self: Sized,
    {
        BudgetKey { kind: BudgetKind::PodDisruptionBudget, object: self.object_key() }
    }
}

impl Name for &str {
    fn object_key(self) -> ObjectKey {
        let (namespace, name) = self.split_once('/').unwrap_or((NAMESPACE, self));
        ObjectKey::new(namespace, name)
    }
}

impl Name for &String {
    fn object_key(self) -> ObjectKey {
        self.as_str().object_key()
    }
}

impl Name for ObjectKey {
    fn object_key(self) -> ObjectKey {
        self
    }
}

impl Name for &ObjectKey {
    fn object_key(self) -> ObjectKey {
        self.clone()
    }
}

impl Name for &BudgetKey {
    fn object_key(self) -> ObjectKey {
        self.object.clone()
    }

    fn budget_key(self) -> BudgetKey {
        self.clone()
    }
}
