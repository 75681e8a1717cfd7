"""How long single operators take at the sizes that networks have, beside what their data must."""
