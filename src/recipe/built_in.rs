//! The recipes that dlrun brings along: the files of `etc/recipes.d/`.

use super::header::Recipe;

/// Names and texts; of a framework those come first that are built soonest.
const FILES: [(&str, &str); 1] = [("tensorflow-pip", include_str!("../../etc/recipes.d/tensorflow-pip.def"))];

/// All of them, in their order.
#[must_use]
pub fn built_in() -> Vec<Recipe> {
    FILES.iter().filter_map(|(name, text)| Recipe::parse(name, None, text).ok()).collect()
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
