"""Its fixtures of the scope `package` end with it; without this file they would last until the end of all tests."""
