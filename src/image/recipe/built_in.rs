//! The recipes that dlrun brings along: the files of `etc/recipes.d/`.

use crate::image::recipe::header::Recipe;

/// Names and texts; of a framework those come first that are built soonest.
const FILES: [(&str, &str); 18] = [
    (
        "tensorflow-pip",
        include_str!("../../../etc/recipes.d/tensorflow-pip.def"),
    ),
    (
        "tensorflow-cuda-pip",
        include_str!("../../../etc/recipes.d/tensorflow-cuda-pip.def"),
    ),
    (
        "tensorflow-hub",
        include_str!("../../../etc/recipes.d/tensorflow-hub.def"),
    ),
    (
        "tensorflow-source",
        include_str!("../../../etc/recipes.d/tensorflow-source.def"),
    ),
    (
        "tensorflow-ngraph-pip",
        include_str!("../../../etc/recipes.d/tensorflow-ngraph-pip.def"),
    ),
    (
        "pytorch-pip",
        include_str!("../../../etc/recipes.d/pytorch-pip.def"),
    ),
    (
        "pytorch-hub",
        include_str!("../../../etc/recipes.d/pytorch-hub.def"),
    ),
    (
        "pytorch-source",
        include_str!("../../../etc/recipes.d/pytorch-source.def"),
    ),
    (
        "jax-pip",
        include_str!("../../../etc/recipes.d/jax-pip.def"),
    ),
    (
        "jax-source",
        include_str!("../../../etc/recipes.d/jax-source.def"),
    ),
    (
        "keras-pip",
        include_str!("../../../etc/recipes.d/keras-pip.def"),
    ),
    (
        "keras-jax-pip",
        include_str!("../../../etc/recipes.d/keras-jax-pip.def"),
    ),
    (
        "keras-torch-pip",
        include_str!("../../../etc/recipes.d/keras-torch-pip.def"),
    ),
    (
        "keras-hub",
        include_str!("../../../etc/recipes.d/keras-hub.def"),
    ),
    (
        "keras-source",
        include_str!("../../../etc/recipes.d/keras-source.def"),
    ),
    (
        "mxnet-pip",
        include_str!("../../../etc/recipes.d/mxnet-pip.def"),
    ),
    (
        "mxnet-hub",
        include_str!("../../../etc/recipes.d/mxnet-hub.def"),
    ),
    (
        "mxnet-source",
        include_str!("../../../etc/recipes.d/mxnet-source.def"),
    ),
];

/// All of them, in their order.
#[must_use]
pub fn built_in() -> Vec<Recipe> {
    FILES
        .iter()
        .filter_map(|(name, text)| Recipe::parse(name, None, text).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_recipe_is_right() {
        for (name, text) in FILES {
            assert_eq!(Recipe::parse(name, None, text).err(), None, "{name}");
        }
    }
}
