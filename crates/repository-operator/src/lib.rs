//! repository-operator
