"""Data sets that people know, as numbers; one is simulated in the image of another."""

from __future__ import annotations

import numpy as np

__all__ = [
    "DEATHS",
    "DISASTERS",
    "EFFECTS",
    "ERRORS",
    "FLOW",
    "FROGS_IN_TANK",
    "FROGS_LEFT",
    "PREDATORS",
    "PUTTS",
    "PUTTS_IN",
    "RAT_WEIGHTS",
    "REMISSION",
    "STILL_IN_REMISSION",
    "TREATED",
    "carbon_dioxide",
]


def _numbers(text: str) -> np.ndarray:
    return np.array([float(word) for word in text.split()])


#: Weights of 30 young rats at 8, 15, 22, 29 and 36 days, in grams (Gelfand et al. 1990).
RAT_WEIGHTS = _numbers(
    """
    151 199 246 283 320  145 199 249 293 354  147 214 263 312 328  155 200 237 272 297
    135 188 230 280 323  159 210 252 298 331  141 189 231 275 305  159 201 248 297 338
    177 236 285 350 376  134 182 220 260 296  160 208 261 313 352  143 188 220 273 314
    154 200 244 289 325  171 221 270 326 358  163 216 242 281 312  160 207 248 288 324
    142 187 234 280 316  156 203 243 283 317  157 212 259 307 336  152 203 246 286 321
    154 205 253 298 334  139 190 225 267 302  146 191 229 272 302  157 211 250 285 323
    132 185 237 286 331  160 207 257 303 345  169 216 261 295 333  157 205 248 289 316
    137 180 219 258 291  153 200 244 286 324
    """
)

#: Reed frog tadpoles in 48 tanks, whether there were predators, and how many survived (Vonesh and
#: Bolker 2005).
FROGS_IN_TANK = np.repeat([10, 25, 35], 16)
PREDATORS = np.tile(np.repeat([0, 1], 8), 3)
FROGS_LEFT = _numbers(
    """
    9 10 7 10 9 9 10 9  4 9 7 6 7 5 9 9  24 23 22 25 23 23 23 21  6 13 4 9 13 20 8 10
    34 33 33 31 31 35 33 32  4 12 13 14 22 12 31 17
    """
).astype(int)

#: Putts by professional golfers from 2 to 20 feet, and those that went in (Berry 1996).
PUTTS = _numbers(
    "1443 694 455 353 272 256 240 217 200 237 202 192 174 167 201 195 191 147 152"
).astype(int)
PUTTS_IN = _numbers("1346 577 337 208 149 136 111 69 67 75 52 46 54 28 27 31 33 20 24").astype(int)

#: What coaching did in eight schools, and its standard errors (Rubin 1981).
EFFECTS = _numbers("28 8 -3 7 -1 1 18 12")
ERRORS = _numbers("15 10 16 11 9 11 10 18")

#: Deaths by horse kick in ten corps of the Prussian army in twenty years (Bortkiewicz 1898).
DEATHS = np.repeat(np.arange(5), [109, 65, 22, 3, 1])

#: The yearly flow of the Nile at Aswan, 1871 to 1970, in 10⁸ m³ (Cobb 1978).
FLOW = _numbers(
    """
    1120 1160 963 1210 1160 1160 813 1230 1370 1140 995 935 1110 994 1020 960 1180 799 958 1140
    1100 1210 1150 1250 1260 1220 1030 1100 774 840 874 694 940 833 701 916 692 1020 1050 969
    831 726 456 824 702 1120 1100 832 764 821 768 845 864 862 698 845 744 796 1040 759 781 865
    845 944 984 897 822 1010 771 676 649 846 812 742 801 1040 860 874 848 890 744 749 838 1050
    918 986 797 923 975 815 1020 906 901 1170 912 746 919 718 714 740
    """
)

#: Weeks in remission of 42 patients with acute leukaemia, the first 21 treated with
#: 6-mercaptopurine, and who was still in remission when the study ended (Freireich et al. 1963).
REMISSION = _numbers(
    """
    6 6 6 7 10 13 16 22 23 6 9 10 11 17 19 20 25 32 32 34 35
    1 1 2 2 3 4 4 5 5 8 8 8 8 11 11 12 12 15 17 22 23
    """
)
STILL_IN_REMISSION = np.r_[np.arange(21) >= 9, np.zeros(21, dtype=bool)]
TREATED = np.repeat([1, 0], 21)

#: British coal mining disasters in each year from 1851 to 1961 (Jarrett 1979).
DISASTERS = _numbers(
    """
    4 5 4 0 1 4 3 4 0 6 3 3 4 0 2 6 3 3 5 4 5 3 1 4 4 1 5 5 3 4 2 5 2 2 3 4 2 1 3 2 2 1 1 1 1 3
    0 0 1 0 1 1 0 0 3 1 0 3 2 2 0 1 1 1 0 1 0 1 0 0 0 2 1 0 0 0 1 1 0 2 3 3 1 1 2 1 1 1 1 2 4 2
    0 0 1 4 0 0 0 1 0 0 0 0 0 1 0 0 1 0 1
    """
).astype(int)


def carbon_dioxide(seed: int = 1958) -> tuple[np.ndarray, np.ndarray]:
    """Simulate ten years of monthly values in the image of carbon dioxide on Mauna Loa.

    Parts per million above the first year's mean: a rise of 1.6 a year that gets steeper, a yearly
    cycle of ±3, and noise.
    """
    years = np.arange(120) / 12
    curve = 1.6 * (years - 0.5) + 0.03 * years**2 + 3 * np.sin(2 * np.pi * years)
    return years, curve + np.random.default_rng(seed).normal(0, 0.4, years.size)
