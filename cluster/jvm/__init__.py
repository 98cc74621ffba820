"""How Java and Scala read values, print them and order them in their collections."""
