"""What a file is and what it holds, as facts and in words, for commands and pages."""
