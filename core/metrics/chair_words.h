// core/metrics/chair_words.h -- the fixed tables of core/metrics/chair.c: irregular plurals, and
// other words for the 80 kinds of objects of COCO. Our own lists, in plain words; the authors' list
// is longer in places, so scores differ from theirs where a caption uses a word that is not here.
//
// clang-format off

// PLURAL(plural, singular)
#define CHAIR_PLURALS(PLURAL)                                                                      \
    PLURAL("people", "person") PLURAL("men", "man") PLURAL("women", "woman")                       \
    PLURAL("children", "child") PLURAL("firemen", "fireman") PLURAL("policemen", "policeman")      \
    PLURAL("knives", "knife") PLURAL("wives", "wife") PLURAL("calves", "calf")                     \
    PLURAL("mice", "mouse") PLURAL("geese", "goose") PLURAL("oxen", "ox")                          \
    PLURAL("buses", "bus") PLURAL("gases", "gas") PLURAL("leaves", "leaf")                         \
    PLURAL("shelves", "shelf") PLURAL("loaves", "loaf") PLURAL("scarves", "scarf")                 \
    PLURAL("wolves", "wolf") PLURAL("feet", "foot") PLURAL("teeth", "tooth")                       \
    PLURAL("neckties", "necktie") PLURAL("ties", "tie") PLURAL("pies", "pie") PLURAL("cookies", "cookie")                        \
    PLURAL("selfies", "selfie") PLURAL("movies", "movie") PLURAL("doggies", "doggie")              \
    PLURAL("skis", "skis") PLURAL("ski", "skis") PLURAL("scissors", "scissors")                    \
    PLURAL("sheep", "sheep") PLURAL("cattle", "cow") PLURAL("bison", "bison")                      \
    PLURAL("cacti", "cactus") PLURAL("axes", "axe") PLURAL("shoes", "shoe")                        \
    PLURAL("canoes", "canoe") PLURAL("glasses", "glass") PLURAL("gloves", "glove")

// SYNONYM(word or words, object); an empty object: the words name none
#define CHAIR_SYNONYMS(SYNONYM)                                                                    \
    SYNONYM("man", "person") SYNONYM("woman", "person") SYNONYM("boy", "person")                   \
    SYNONYM("girl", "person") SYNONYM("child", "person") SYNONYM("kid", "person")                  \
    SYNONYM("baby", "person") SYNONYM("toddler", "person") SYNONYM("infant", "person")             \
    SYNONYM("guy", "person") SYNONYM("lady", "person") SYNONYM("gentleman", "person")              \
    SYNONYM("player", "person") SYNONYM("skier", "person") SYNONYM("surfer", "person")             \
    SYNONYM("snowboarder", "person") SYNONYM("skateboarder", "person") SYNONYM("rider", "person")  \
    SYNONYM("cyclist", "person") SYNONYM("driver", "person") SYNONYM("pedestrian", "person")       \
    SYNONYM("chef", "person") SYNONYM("officer", "person") SYNONYM("policeman", "person")          \
    SYNONYM("fireman", "person") SYNONYM("batter", "person") SYNONYM("catcher", "person")          \
    SYNONYM("pitcher", "person") SYNONYM("passenger", "person") SYNONYM("bike", "bicycle")         \
    SYNONYM("automobile", "car") SYNONYM("sedan", "car") SYNONYM("suv", "car")                     \
    SYNONYM("taxi", "car") SYNONYM("cab", "car") SYNONYM("motorbike", "motorcycle")                \
    SYNONYM("scooter", "motorcycle") SYNONYM("moped", "motorcycle")                                \
    SYNONYM("motor bike", "motorcycle") SYNONYM("motor cycle", "motorcycle")                       \
    SYNONYM("plane", "airplane") SYNONYM("aeroplane", "airplane") SYNONYM("jet", "airplane")       \
    SYNONYM("aircraft", "airplane") SYNONYM("jetliner", "airplane") SYNONYM("minibus", "bus")      \
    SYNONYM("school bus", "bus") SYNONYM("locomotive", "train") SYNONYM("tram", "train")           \
    SYNONYM("passenger train", "train") SYNONYM("pickup", "truck") SYNONYM("lorry", "truck")       \
    SYNONYM("firetruck", "truck") SYNONYM("ship", "boat") SYNONYM("canoe", "boat")                 \
    SYNONYM("kayak", "boat") SYNONYM("yacht", "boat") SYNONYM("sailboat", "boat")                  \
    SYNONYM("ferry", "boat") SYNONYM("stoplight", "traffic light")                                 \
    SYNONYM("traffic signal", "traffic light") SYNONYM("stop light", "traffic light")              \
    SYNONYM("hydrant", "fire hydrant") SYNONYM("stopsign", "stop sign")                            \
    SYNONYM("parkingmeter", "parking meter") SYNONYM("pigeon", "bird") SYNONYM("seagull", "bird")  \
    SYNONYM("duck", "bird") SYNONYM("goose", "bird") SYNONYM("parrot", "bird")                     \
    SYNONYM("swan", "bird") SYNONYM("owl", "bird") SYNONYM("kitten", "cat")                        \
    SYNONYM("kitty", "cat") SYNONYM("puppy", "dog") SYNONYM("hound", "dog")                        \
    SYNONYM("doggie", "dog") SYNONYM("pony", "horse") SYNONYM("foal", "horse")                     \
    SYNONYM("stallion", "horse") SYNONYM("lamb", "sheep") SYNONYM("ram", "sheep")                  \
    SYNONYM("goat", "sheep") SYNONYM("ox", "cow") SYNONYM("bull", "cow")                           \
    SYNONYM("calf", "cow") SYNONYM("polar bear", "bear") SYNONYM("grizzly", "bear")                \
    SYNONYM("knapsack", "backpack") SYNONYM("rucksack", "backpack") SYNONYM("parasol", "umbrella") \
    SYNONYM("purse", "handbag") SYNONYM("hand bag", "handbag") SYNONYM("necktie", "tie")           \
    SYNONYM("luggage", "suitcase") SYNONYM("suit case", "suitcase") SYNONYM("disc", "frisbee")     \
    SYNONYM("snow board", "snowboard") SYNONYM("ball", "sports ball")                              \
    SYNONYM("soccer ball", "sports ball") SYNONYM("tennis ball", "sports ball")                    \
    SYNONYM("baseball", "sports ball") SYNONYM("football", "sports ball")                          \
    SYNONYM("basketball", "sports ball") SYNONYM("bat", "baseball bat")                            \
    SYNONYM("glove", "baseball glove") SYNONYM("mitt", "baseball glove")                           \
    SYNONYM("skate board", "skateboard") SYNONYM("surf board", "surfboard")                        \
    SYNONYM("racket", "tennis racket") SYNONYM("racquet", "tennis racket")                         \
    SYNONYM("tennis racquet", "tennis racket") SYNONYM("wineglass", "wine glass")                  \
    SYNONYM("mug", "cup") SYNONYM("teacup", "cup") SYNONYM("doughnut", "donut")                    \
    SYNONYM("hotdog", "hot dog") SYNONYM("cupcake", "cake") SYNONYM("cheesecake", "cake")          \
    SYNONYM("stool", "chair") SYNONYM("armchair", "chair") SYNONYM("recliner", "chair")            \
    SYNONYM("sofa", "couch") SYNONYM("loveseat", "couch") SYNONYM("houseplant", "potted plant")    \
    SYNONYM("pottedplant", "potted plant") SYNONYM("plant", "potted plant")                        \
    SYNONYM("mattress", "bed") SYNONYM("crib", "bed") SYNONYM("table", "dining table")             \
    SYNONYM("diningtable", "dining table") SYNONYM("desk", "dining table")                         \
    SYNONYM("urinal", "toilet") SYNONYM("commode", "toilet") SYNONYM("television", "tv")           \
    SYNONYM("tvmonitor", "tv") SYNONYM("monitor", "tv") SYNONYM("notebook computer", "laptop")     \
    SYNONYM("laptop computer", "laptop") SYNONYM("remote control", "remote")                       \
    SYNONYM("cellphone", "cell phone") SYNONYM("phone", "cell phone")                              \
    SYNONYM("telephone", "cell phone") SYNONYM("smartphone", "cell phone")                         \
    SYNONYM("mobile phone", "cell phone") SYNONYM("stove", "oven") SYNONYM("fridge", "refrigerator") \
    SYNONYM("teddy", "teddy bear") SYNONYM("teddybear", "teddy bear")                              \
    SYNONYM("stuffed bear", "teddy bear") SYNONYM("hairdryer", "hair drier")                       \
    SYNONYM("hair dryer", "hair drier") SYNONYM("blow dryer", "hair drier")                        \
    SYNONYM("tooth brush", "toothbrush") SYNONYM("baby bear", "bear")                              \
    SYNONYM("baby elephant", "elephant") SYNONYM("baby giraffe", "giraffe")                        \
    SYNONYM("baby zebra", "zebra") SYNONYM("baby sheep", "sheep") SYNONYM("baby cow", "cow")       \
    SYNONYM("baby horse", "horse") SYNONYM("baby bird", "bird") SYNONYM("baby duck", "bird")       \
    SYNONYM("toilet seat", "toilet") SYNONYM("toilet paper", "") SYNONYM("tennis player", "person") \
    SYNONYM("baseball player", "person") SYNONYM("soccer player", "person")                        \
    SYNONYM("baseball game", "") SYNONYM("baseball field", "") SYNONYM("soccer field", "")         \
    SYNONYM("football field", "") SYNONYM("basketball court", "") SYNONYM("train station", "")     \
    SYNONYM("train track", "") SYNONYM("bus stop", "") SYNONYM("bus station", "")                  \
    SYNONYM("boat dock", "") SYNONYM("bird house", "") SYNONYM("dog house", "")                    \
    SYNONYM("car seat", "") SYNONYM("table cloth", "") SYNONYM("bed sheet", "")                    \
    SYNONYM("computer mouse", "mouse") SYNONYM("tv remote", "remote")
// clang-format on
