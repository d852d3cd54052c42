//! jobs-operator
