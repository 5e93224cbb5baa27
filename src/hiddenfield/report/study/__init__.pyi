from .page import result_files as result_files, results_page as results_page, write_page as write_page
from .pictures import Picture as Picture, draw_picture as draw_picture, pictures_of as pictures_of
from .records import (
    Figure as Figure,
    Result as Result,
    Row as Row,
    Run as Run,
    Scale as Scale,
    read_result as read_result,
)
