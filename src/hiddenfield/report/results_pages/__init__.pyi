from .page import results_page as results_page
from .pictures import Picture as Picture, pictures_of as pictures_of
