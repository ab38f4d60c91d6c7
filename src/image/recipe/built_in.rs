//! The recipes that dlrun brings along: the files of `etc/recipes.d/`.

use crate::image::recipe::header::Recipe;

macro_rules! recipes {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../etc/recipes.d/", $name, ".def")))),*]
    };
}

/// Names and texts; of a framework those come first that are built soonest.
const FILES: &[(&str, &str)] = recipes![
    "tensorflow-pip",
    "tensorflow-cuda-pip",
    "tensorflow-hub",
    "tensorflow-source",
    "tensorflow-ngraph-pip",
    "pytorch-pip",
    "pytorch-hub",
    "pytorch-source",
    "jax-pip",
    "jax-source",
    "keras-pip",
    "keras-jax-pip",
    "keras-torch-pip",
    "keras-hub",
    "keras-source",
    "mxnet-pip",
    "mxnet-hub",
    "mxnet-source",
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
