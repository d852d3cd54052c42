//! repository-api
