// tests/core/metrics/chair_sentences.h -- sentences and the objects they name, in the order found.
// Hand-made; read by metrics.c and by the second implementation (tests/core/sets/hallucination.py).
//
// clang-format off

#define CHAIR_KINDS(KIND)                                                                          \
    KIND("person") KIND("dog") KIND("hot dog") KIND("dining table") KIND("cup") KIND("wine glass") \
    KIND("skis") KIND("sheep") KIND("bus") KIND("teddy bear") KIND("bear") KIND("potted plant")    \
    KIND("tie") KIND("toothbrush")

// SENTENCE(sentence, found, mentions, hallucinated mentions); the picture has a person, a dog and skis
#define CHAIR_SENTENCES(SENTENCE)                                                                  \
    SENTENCE("Two men and a woman walk their dogs.", "person, person, dog", 3, 0)                  \
    SENTENCE("A hot dog on a table!", "hot dog (not there), dining table (not there)", 2, 2)       \
    SENTENCE("Hot dogs; a dog eats one.", "hot dog (not there), dog", 2, 1)                        \
    SENTENCE("Children ski; one ski is broken, skis everywhere.",                                  \
             "person, skis, skis, skis", 4, 0)                                                     \
    SENTENCE("A teddy-bear between BEARS, buses and flocks of sheep.",                             \
             "teddy bear (not there), bear (not there), bus (not there), sheep (not there)", 4, 4) \
    SENTENCE("Mugs, neckties and houseplants.",                                                    \
             "cup (not there), tie (not there), potted plant (not there)", 3, 3)                   \
    SENTENCE("Wine glasses at the bus stop, wineglasses, a tooth brush.",                          \
             "wine glass (not there), wine glass (not there), toothbrush (not there)", 3, 3)       \
    SENTENCE("She waits at a bus stop, the bus leaves.", "bus (not there)", 1, 1)                  \
    SENTENCE("The dogma of dogged personality.", "", 0, 0)                                         \
    SENTENCE("A man in skis, a man in ties.", "person, skis, person, tie (not there)", 4, 1)       \
    SENTENCE("", "", 0, 0)
