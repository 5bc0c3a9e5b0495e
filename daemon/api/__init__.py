"""The questions of programs and of the page, and the answers: made of one reading, off the loop."""
