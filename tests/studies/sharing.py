"""What studies of one test may have in common, so that it is made once."""

from continual_learning.studies import launch


def share_program(patch):
    """Studies of the same method and lanes run the program of the first of them.

    To trace it again takes as long as all else, and gives the same.
    """
    make, made = launch.program_of, []

    def first(*args):
        if not made:
            made.append(make(*args))
        return made[0]

    patch.setattr(launch, "program_of", first)
