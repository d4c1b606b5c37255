"""Messages of other programs: targets publish them, and sources create jobs from them."""
