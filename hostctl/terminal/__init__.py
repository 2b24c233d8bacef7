"""What a user sees and answers: questions, progress, tables that follow, times and sizes."""
